/* fakecuda_streams.c -- streams, events and captures of the stand-in for libcuda. */
#include "fakecuda_test.h"

enum { LONG_US = 60000 };

static int status_of(stream_t stream)
{
	int status = -1;

	GOOD(cuStreamIsCapturing(stream, &status));
	return status;
}

static void work_is_done_in_its_streams_order(void)
{
	stream_t stream;
	uint64_t dptr;

	begin();
	stream = stream_new(0);
	dptr = take(64);
	GOOD(fill(stream, dptr, 64, 1, LONG_US));
	GOOD(fill(stream, dptr, 64, 2, 0));
	EXPECT(cuStreamQuery(stream), NOT_READY);
	EXPECT(byte_at(dptr), 0);
	GOOD(cuStreamSynchronize(stream));
	EXPECT(byte_at(dptr), 2);
	GOOD(cuStreamQuery(stream));
}

static void the_legacy_stream_waits_for_blocking_streams_alone(void)
{
	stream_t blocking, free_running;
	uint64_t dptr;

	begin();
	blocking = stream_new(0);
	free_running = stream_new(NON_BLOCKING);
	dptr = take(1024);
	GOOD(fill(blocking, dptr, 64, 1, LONG_US));
	GOOD(fill(free_running, dptr + 512, 64, 1, 4 * LONG_US));
	GOOD(cuMemsetD8_v2(dptr, 2, 64));    /* waits for the blocking one before it */
	GOOD(fill(blocking, dptr, 1, 3, 0)); /* waits for that */
	GOOD(cuStreamSynchronize(blocking));
	EXPECT(byte_at(dptr), 3);
	EXPECT(byte_at(dptr + 1), 2);
	EXPECT(cuStreamQuery(free_running), NOT_READY);
	GOOD(cuCtxSynchronize());
	EXPECT(byte_at(dptr + 512), 1);
}

static void *other_thread(void *context)
{
	GOOD(cuCtxSetCurrent(context));
	EXPECT(cuStreamQuery_ptsz(NULL), OK); /* a stream of its own, with nothing on it */
	EXPECT(cuStreamQuery(NULL), NOT_READY);
	return NULL;
}

static void each_thread_has_a_default_stream(void)
{
	context_t context = begin();
	unsigned int delay_us = LONG_US;
	void *params[] = {&delay_us};
	pthread_t thread;

	GOOD(cuLaunchKernel_ptsz(kernel_delay, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	EXPECT(cuStreamQuery_ptsz(NULL), NOT_READY);
	pthread_create(&thread, NULL, other_thread, context);
	pthread_join(thread, NULL);
	GOOD(cuStreamSynchronize_ptsz(NULL));
}

static void an_event_is_done_with_what_was_before_it(void)
{
	stream_t stream;
	event_t event;

	begin();
	stream = stream_new(0);
	event = event_new();
	GOOD(cuEventQuery(event)); /* never recorded: done */
	GOOD(sleep_on(stream, LONG_US));
	GOOD(cuEventRecord(event, stream));
	GOOD(sleep_on(stream, 4 * LONG_US));
	EXPECT(cuEventQuery(event), NOT_READY);
	GOOD(cuEventSynchronize(event));
	GOOD(cuEventQuery(event));
	EXPECT(cuStreamQuery(stream), NOT_READY);
}

static void an_event_on_the_legacy_stream_misses_non_blocking_ones(void)
{
	context_t context = begin();
	stream_t stream = stream_new(NON_BLOCKING);
	event_t legacy = event_new(), whole = event_new();

	GOOD(sleep_on(stream, 4 * LONG_US));
	GOOD(cuEventRecord(legacy, NULL));
	GOOD(cuCtxRecordEvent(context, whole));
	GOOD(cuEventSynchronize(legacy));
	EXPECT(cuEventQuery(whole), NOT_READY);
	GOOD(cuEventSynchronize(whole));
	GOOD(cuStreamQuery(stream));
}

static void a_context_event_sees_a_destroyed_streams_work(void)
{
	context_t context = begin();
	stream_t stream = stream_new(NON_BLOCKING);
	event_t event = event_new();

	GOOD(sleep_on(stream, LONG_US));
	GOOD(cuStreamDestroy_v2(stream));
	GOOD(cuCtxRecordEvent(context, event));
	EXPECT(cuEventQuery(event), NOT_READY);
	GOOD(cuEventSynchronize(event));
}

static void a_context_wait_holds_later_work_of_every_stream(void)
{
	context_t context = begin();
	stream_t stream = stream_new(NON_BLOCKING), other;
	event_t event = event_new();
	uint64_t dptr = take(64);

	GOOD(fill(stream, dptr, 64, 5, LONG_US));
	GOOD(cuEventRecord(event, stream));
	GOOD(cuCtxWaitEvent(context, event));
	other = stream_new(NON_BLOCKING);
	GOOD(fill(other, dptr, 64, 6, 0));
	GOOD(cuStreamSynchronize(other));
	EXPECT(byte_at(dptr), 6);
}

static void a_stream_waits_for_an_event_of_another(void)
{
	stream_t first, second;
	event_t event;
	uint64_t dptr;

	begin();
	first = stream_new(NON_BLOCKING);
	second = stream_new(NON_BLOCKING);
	event = event_new();
	dptr = take(64);
	GOOD(fill(first, dptr, 64, 1, LONG_US));
	GOOD(cuEventRecord(event, first));
	GOOD(cuStreamWaitEvent(second, event, 0));
	GOOD(fill(second, dptr, 64, 2, 0));
	GOOD(cuStreamSynchronize(second));
	EXPECT(byte_at(dptr), 2);
}

static void events_tell_the_time_between_them(void)
{
	event_t from, to;
	float ms = 0;

	begin();
	GOOD(cuEventCreate(&from, 0));
	GOOD(cuEventCreate(&to, 0));
	GOOD(cuEventRecord(from, NULL));
	GOOD(sleep_on(NULL, 20000));
	GOOD(cuEventRecord(to, NULL));
	EXPECT(cuEventElapsedTime(&ms, from, to), NOT_READY);
	GOOD(cuEventSynchronize(to));
	GOOD(cuEventElapsedTime(&ms, from, to));
	EXPECT(ms >= 20 && ms < 2000, 1);
	EXPECT(cuEventElapsedTime(&ms, event_new(), to), INVALID_HANDLE);
}

static void a_free_waits_for_whom_it_is_told(void)
{
	const int waits = atoi(getenv("FAKECUDA_FREE_WAITS"));
	stream_t blocking, free_running;

	begin();
	blocking = stream_new(0);
	free_running = stream_new(NON_BLOCKING);
	GOOD(sleep_on(blocking, LONG_US));
	GOOD(sleep_on(free_running, 4 * LONG_US));
	GOOD(cuMemFree_v2(take(64)));
	EXPECT(cuStreamQuery(blocking), waits >= 1 ? OK : NOT_READY);
	EXPECT(cuStreamQuery(free_running), waits >= 2 ? OK : NOT_READY);
}

/* ---- captures ---- */

static void a_captured_graph_does_its_work_when_launched(void)
{
	struct CUgraphExec_st *exec;
	size_t count = 0;
	stream_t stream;
	uint64_t dptr;
	graph_t graph;

	begin();
	stream = stream_new(NON_BLOCKING);
	dptr = take(64);
	GOOD(cuStreamBeginCapture_v2(stream, GLOBAL));
	EXPECT(status_of(stream), 1);
	GOOD(fill(stream, dptr, 64, 7, LONG_US));
	GOOD(cuMemsetD8Async(dptr, 8, 1, stream));
	GOOD(cuStreamEndCapture(stream, &graph));
	EXPECT(byte_at(dptr), 0);
	GOOD(cuGraphGetNodes(graph, NULL, &count));
	EXPECT(count, 2);
	GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
	GOOD(cuGraphDestroy(graph));
	GOOD(cuGraphLaunch(exec, stream));
	GOOD(cuGraphExecDestroy(exec)); /* the launch in flight goes on */
	EXPECT(cuStreamQuery(stream), NOT_READY);
	GOOD(cuStreamSynchronize(stream));
	EXPECT(byte_at(dptr), 8);
	EXPECT(byte_at(dptr + 1), 7);
	EXPECT(ledger().graphs, 0);
}

/* Whether an unsafe call of a thread in this mode is refused, and the capture with it. */
struct unsafe {
	context_t context;
	int thread_mode;
	int result;
};

static void *call_unsafe(void *argument)
{
	struct unsafe *unsafe = argument;
	uint64_t dptr;
	int mode = unsafe->thread_mode;

	GOOD(cuCtxSetCurrent(unsafe->context));
	GOOD(cuThreadExchangeStreamCaptureMode(&mode));
	unsafe->result = cuMemAlloc_v2(&dptr, 64);
	GOOD(cuThreadExchangeStreamCaptureMode(&mode));
	return NULL;
}

static void try_unsafe(stream_t stream, int capture_mode, int thread_mode, int own, int wanted)
{
	struct unsafe unsafe = {NULL, thread_mode, -1};
	pthread_t thread;
	graph_t graph;

	GOOD(cuCtxGetCurrent(&unsafe.context));
	GOOD(cuStreamBeginCapture_v2(stream, capture_mode));
	if (own) {
		call_unsafe(&unsafe);
	} else {
		pthread_create(&thread, NULL, call_unsafe, &unsafe);
		pthread_join(thread, NULL);
	}
	if (unsafe.result != wanted)
		printf("capture mode %d, thread mode %d, own %d:\n", capture_mode, thread_mode,
		       own);
	EXPECT(unsafe.result, wanted);
	EXPECT(status_of(stream), wanted == OK ? 1 : 2);
	EXPECT(cuStreamEndCapture(stream, &graph), wanted == OK ? OK : CAPTURE_INVALIDATED);
	EXPECT(graph != NULL, wanted == OK);
	EXPECT(status_of(stream), 0);
}

static void unsafe_calls_are_refused_by_the_modes_of_capture_and_thread(void)
{
	stream_t stream;
	int mode;

	begin();
	stream = stream_new(NON_BLOCKING);
	/* The thread that captures: in the way unless capture or thread is relaxed. */
	for (mode = GLOBAL; mode <= THREAD_LOCAL; mode++) {
		try_unsafe(stream, GLOBAL, mode, 1, CAPTURE_UNSUPPORTED);
		try_unsafe(stream, THREAD_LOCAL, mode, 1, CAPTURE_UNSUPPORTED);
		try_unsafe(stream, RELAXED, mode, 1, OK);
	}
	/* Another: only a global capture against a thread in global mode. */
	try_unsafe(stream, GLOBAL, GLOBAL, 0, CAPTURE_UNSUPPORTED);
	try_unsafe(stream, GLOBAL, THREAD_LOCAL, 0, OK);
	try_unsafe(stream, THREAD_LOCAL, GLOBAL, 0, OK);
	try_unsafe(stream, RELAXED, GLOBAL, 0, OK);
	for (mode = GLOBAL; mode <= RELAXED; mode++) {
		try_unsafe(stream, mode, RELAXED, 0, OK);
		try_unsafe(stream, mode, RELAXED, 1, OK);
	}
}

static void what_conflicts_spoils_a_capture_in_every_mode(void)
{
	context_t context = begin(), second;
	stream_t stream = stream_new(NON_BLOCKING);
	event_t event = event_new(), elsewhere;
	int mode = RELAXED;
	graph_t graph;

	GOOD(cuThreadExchangeStreamCaptureMode(&mode));
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	EXPECT(cuCtxRecordEvent(context, event), CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_INVALIDATED);
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	EXPECT(cuCtxSynchronize(), CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_INVALIDATED);
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	EXPECT(cuStreamSynchronize(stream), CAPTURE_UNSUPPORTED);
	EXPECT(sleep_on(stream, 0), CAPTURE_INVALIDATED);
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_INVALIDATED);
	/* Another context is none of its business. */
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	GOOD(cuCtxCreate_v2(&second, 0, 0));
	elsewhere = event_new();
	GOOD(cuCtxRecordEvent(second, elsewhere));
	GOOD(cuCtxSynchronize());
	GOOD(cuCtxSetCurrent(context));
	GOOD(cuStreamEndCapture(stream, &graph));
}

static void an_event_of_a_capture_is_not_asked(void)
{
	stream_t stream;
	event_t event;
	graph_t graph;
	int mode = RELAXED;

	begin();
	stream = stream_new(NON_BLOCKING);
	event = event_new();
	GOOD(cuThreadExchangeStreamCaptureMode(&mode));
	GOOD(cuStreamBeginCapture_v2(stream, GLOBAL));
	GOOD(cuEventRecord(event, stream));
	EXPECT(cuEventQuery(event), CAPTURED_EVENT);
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_INVALIDATED);
	EXPECT(cuEventQuery(event), CAPTURED_EVENT);
	GOOD(cuEventRecord(event, stream));
	GOOD(cuEventSynchronize(event));
}

static void a_capture_spreads_by_events_and_must_be_joined(void)
{
	stream_t first, second;
	event_t fork, join;
	uint64_t dptr;
	size_t count = 0;
	graph_t graph;

	begin();
	first = stream_new(NON_BLOCKING);
	second = stream_new(NON_BLOCKING);
	fork = event_new();
	join = event_new();
	dptr = take(64);
	GOOD(cuStreamBeginCapture_v2(first, GLOBAL));
	GOOD(fill(first, dptr, 1, 1, 0));
	GOOD(cuEventRecord(fork, first));
	GOOD(cuStreamWaitEvent(second, fork, 0));
	EXPECT(status_of(second), 1);
	GOOD(fill(second, dptr, 1, 2, 0));
	GOOD(cuEventRecord(join, second));
	EXPECT(cuStreamEndCapture(second, &graph), CAPTURE_UNMATCHED);
	EXPECT(cuStreamEndCapture(first, &graph), CAPTURE_INVALIDATED);

	GOOD(cuStreamBeginCapture_v2(first, GLOBAL));
	GOOD(cuEventRecord(fork, first));
	GOOD(cuStreamWaitEvent(second, fork, 0));
	GOOD(fill(second, dptr, 1, 2, 0));
	EXPECT(cuStreamEndCapture(first, &graph), CAPTURE_UNJOINED);
	EXPECT(status_of(second), 0);

	GOOD(cuStreamBeginCapture_v2(first, GLOBAL));
	GOOD(cuEventRecord(fork, first));
	GOOD(cuStreamWaitEvent(second, fork, 0));
	GOOD(fill(second, dptr, 1, 2, 0));
	GOOD(cuEventRecord(join, second));
	GOOD(cuStreamWaitEvent(first, join, 0));
	GOOD(cuStreamEndCapture(first, &graph));
	GOOD(cuGraphGetNodes(graph, NULL, &count));
	EXPECT(count, 1);
}

static void the_legacy_stream_is_closed_while_a_blocking_one_captures(void)
{
	stream_t stream;
	uint64_t dptr;
	graph_t graph;

	begin();
	dptr = take(64);
	EXPECT(cuStreamBeginCapture_v2(NULL, GLOBAL), CAPTURE_UNSUPPORTED);
	stream = stream_new(0);
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	EXPECT(cuMemsetD8_v2(dptr, 1, 64), CAPTURE_IMPLICIT);
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_INVALIDATED);
	stream = stream_new(NON_BLOCKING);
	GOOD(cuStreamBeginCapture_v2(stream, RELAXED));
	GOOD(cuMemsetD8_v2(dptr, 1, 64));
	GOOD(cuStreamEndCapture(stream, &graph));
}

static void *end_elsewhere(void *stream)
{
	context_t context;
	graph_t graph;

	GOOD(cuDevicePrimaryCtxRetain(&context, 0));
	GOOD(cuCtxSetCurrent(context));
	EXPECT(cuStreamEndCapture(stream, &graph), CAPTURE_WRONG_THREAD);
	return NULL;
}

static void a_capture_ends_where_it_began(void)
{
	pthread_t thread;
	stream_t stream;
	graph_t graph;

	begin();
	stream = stream_new(NON_BLOCKING);
	EXPECT(cuStreamEndCapture(stream, &graph), ILLEGAL_STATE);
	GOOD(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
	EXPECT(cuStreamBeginCapture_v2(stream, THREAD_LOCAL), ILLEGAL_STATE);
	pthread_create(&thread, NULL, end_elsewhere, stream);
	pthread_join(thread, NULL);
	GOOD(cuStreamEndCapture(stream, &graph));
}

static void a_graph_has_memory_of_its_own(void)
{
	struct CUgraphExec_st *exec;
	uint64_t dptr, used = 0, reserved = 0;
	stream_t stream;
	graph_t graph;

	begin();
	stream = stream_new(NON_BLOCKING);
	GOOD(cuStreamBeginCapture_v2(stream, GLOBAL));
	GOOD(cuMemAllocAsync(&dptr, 4 << 20, stream));
	GOOD(fill(stream, dptr, 64, 3, 0));
	GOOD(cuMemFreeAsync(dptr, stream));
	GOOD(cuStreamEndCapture(stream, &graph));
	GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
	GOOD(cuGraphLaunch(exec, stream));
	GOOD(cuStreamSynchronize(stream));
	GOOD(cuDeviceGetGraphMemAttribute(0, 0, &used));
	EXPECT(used, 4 << 20);
	GOOD(cuGraphExecDestroy(exec));
	GOOD(cuGraphDestroy(graph));
	GOOD(cuDeviceGetGraphMemAttribute(0, 0, &used));
	GOOD(cuDeviceGetGraphMemAttribute(0, 2, &reserved));
	EXPECT(used, 0);
	EXPECT(reserved, 4 << 20);
	EXPECT(fakecuda_used_bytes(0), 4 << 20);
	GOOD(cuDeviceGraphMemTrim(0));
	EXPECT(fakecuda_used_bytes(0), 0);
}

#define B(name)                                                                                    \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct behaviour behaviours[] = {
	B(work_is_done_in_its_streams_order),
	B(the_legacy_stream_waits_for_blocking_streams_alone),
	B(each_thread_has_a_default_stream),
	B(an_event_is_done_with_what_was_before_it),
	B(an_event_on_the_legacy_stream_misses_non_blocking_ones),
	B(a_context_event_sees_a_destroyed_streams_work),
	B(a_context_wait_holds_later_work_of_every_stream),
	B(a_stream_waits_for_an_event_of_another),
	B(events_tell_the_time_between_them),
	B(a_free_waits_for_whom_it_is_told),
	B(a_captured_graph_does_its_work_when_launched),
	B(unsafe_calls_are_refused_by_the_modes_of_capture_and_thread),
	B(what_conflicts_spoils_a_capture_in_every_mode),
	B(an_event_of_a_capture_is_not_asked),
	B(a_capture_spreads_by_events_and_must_be_joined),
	B(the_legacy_stream_is_closed_while_a_blocking_one_captures),
	B(a_capture_ends_where_it_began),
	B(a_graph_has_memory_of_its_own),
};

int main(int argc, char **argv)
{
	return run_one(behaviours, sizeof(behaviours) / sizeof(behaviours[0]),
		       argc > 1 ? argv[1] : NULL);
}
