/* driver_random_streams.c -- the drawn calls on streams: work, host functions, captures, and green
 * contexts. */
#include "driver_random_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { HOST_CALLS = 128, GATE_MS = 400 };

static struct host_call {
	uint64_t dptr; /* to be freed; 0: it allocates */
	int slot;
	_Atomic int results[2];
} host_calls[HOST_CALLS];
static unsigned int host_count;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_wake = PTHREAD_COND_INITIALIZER;
static unsigned int gate_round; /* under gate_lock; a gate is open once this is past its own */
bool is_gate_closed, is_gate_blocking;

/* ---- host functions ---- */

/* The driver refuses every call in here. */
static void host_calls_driver(void *call_)
{
	struct host_call *call = call_;
	uint64_t dptr = 0;
	size_t free_bytes, total;

	atomic_store(&call->results[0],
		     call->dptr != 0 ? cuMemFree_v2(call->dptr) : cuMemAlloc_v2(&dptr, 4096));
	atomic_store(&call->results[1], cuMemGetInfo_v2(&free_bytes, &total));
}

static void host_waits(void *round)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_nsec += GATE_MS * 1000000L;
	limit.tv_sec += limit.tv_nsec / 1000000000;
	limit.tv_nsec %= 1000000000;
	pthread_mutex_lock(&gate_lock);
	while (gate_round <= (unsigned int)(uintptr_t)round)
		if (pthread_cond_timedwait(&gate_wake, &gate_lock, &limit) != 0)
			break;
	pthread_mutex_unlock(&gate_lock);
}

void open_gates(void)
{
	pthread_mutex_lock(&gate_lock);
	gate_round++;
	is_gate_closed = is_gate_blocking = false;
	pthread_cond_broadcast(&gate_wake);
	pthread_mutex_unlock(&gate_lock);
}

static void close_gate(struct stream *stream, uint64_t slot)
{
	/* In a graph it would wait when that is launched, where nobody opens it. */
	if (stream->captures || is_gate_closed)
		return;
	if (TRY(cuLaunchHostFunc, slot, 1, stream->stream, host_waits,
		(void *)(uintptr_t)gate_round) != OK)
		return;
	is_gate_closed = true;
	is_gate_blocking = (stream->flags & NON_BLOCKING) == 0;
}

static void call_from_host(const struct draw *draw, struct stream *stream, uint64_t slot)
{
	const struct block *block = &blocks[draw->c % BLOCKS];
	struct host_call *call = &host_calls[host_count];

	if (host_count == HOST_CALLS)
		return;
	*call = (struct host_call){.dptr = block->kind == DEVICE ? block->dptr : 0,
				   .slot = (int)(draw->c % BLOCKS),
				   .results = {NOT_RUN, NOT_RUN}};
	if (TRY(cuLaunchHostFunc, slot, 0, stream->stream, host_calls_driver, call) == OK)
		host_count++;
	/* So that no later call of the sequence comes before it by chance. */
	if (!stream->captures) {
		open_gates();
		TRY(cuStreamSynchronize, slot, 0, stream->stream);
	}
}

void note_host_calls(void)
{
	unsigned int i;

	for (i = 0; i < host_count; i++) {
		note(host_calls[i].dptr != 0 ? "cuMemFree_v2 in a host function"
					     : "cuMemAlloc_v2 in a host function",
		     now_us(), host_calls[i].results[0], (uint64_t)host_calls[i].slot, 0);
		note("cuMemGetInfo_v2 in a host func", now_us(), host_calls[i].results[1], 0, 0);
	}
	host_count = 0;
}

/* ---- streams ---- */

static void create_stream(uint64_t slot, unsigned int flags)
{
	struct stream fresh = {.flags = flags, .context = current_slot()};

	if (TRY(cuStreamCreate, slot, flags, &fresh.stream, flags) == OK)
		streams[slot] = fresh;
}

/* A stream of the current context: work on another's is refused, which is drawn too, but seldom. */
static struct stream *drawn_stream(uint32_t from, uint64_t *slot)
{
	static struct stream legacy;
	const int context = current_slot();
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		*slot = (from + i) % STREAMS;
		if (streams[*slot].stream != NULL &&
		    (streams[*slot].context == context || from % 8 == 7))
			return &streams[*slot];
	}
	*slot = from % STREAMS;
	if (from % 64 < 56 && streams[*slot].stream == NULL) {
		create_stream(*slot, from % 2);
		if (streams[*slot].stream != NULL)
			return &streams[*slot];
	}
	*slot = STREAMS;
	legacy = (struct stream){.context = context};
	return &legacy;
}

void launch(const struct draw *draw)
{
	/* Mostly short: a call that waits for a long one is no fault. */
	unsigned int us = draw->b % 40 == 0 ? 30000 : draw->b % 500;
	void *parameters[] = {&us};
	uint64_t slot;
	struct stream *stream = drawn_stream(draw->a, &slot);

	switch (draw->c % 4) {
	case 0:
		close_gate(stream, slot);
		break;
	case 1:
		call_from_host(draw, stream, slot);
		break;
	default:
		if (kernel_delay != NULL)
			TRY(cuLaunchKernel, slot, us, kernel_delay, 1, 1, 1, 1, 1, 1, 0,
			    stream->stream, parameters, NULL);
		break;
	}
}

static void destroy(int slot)
{
	struct stream *stream = &streams[slot];

	if (stream->exec != NULL) {
		open_gates();
		TRY(cuGraphExecDestroy, slot, 0, stream->exec);
	}
	TRY(cuStreamDestroy_v2, slot, stream->captures, stream->stream);
	*stream = (struct stream){0};
}

void end_streams(void)
{
	int i;

	open_gates();
	for (i = 0; i < STREAMS; i++)
		if (streams[i].stream != NULL)
			destroy(i);
}

void change_stream(const struct draw *draw)
{
	const int slot = (int)(draw->a % STREAMS);

	if (draw->c % 4 == 0) {
		open_gates();
		TRY(cuStreamSynchronize, slot, 0, streams[slot].stream);
		return;
	}
	if (draw->c % 16 == 1) {
		open_gates();
		TRY(cuCtxSynchronize, slot, 0);
		return;
	}
	if (streams[slot].stream != NULL)
		destroy(slot);
	else
		create_stream((uint64_t)slot, draw->b % 2);
}

/* ---- captures ---- */

static void end_capture(struct stream *stream, uint64_t slot)
{
	struct CUgraph_st *graph = NULL;
	const int result = TRY(cuStreamEndCapture, slot, 0, stream->stream, &graph);

	/* One that another thread would have to end stays open. */
	if (result != CAPTURE_WRONG_THREAD)
		stream->captures = false;
	if (result != OK || graph == NULL)
		return;
	if (driver_version >= 11040 && stream->exec == NULL)
		if (TRY(cuGraphInstantiateWithFlags, slot, 0, &stream->exec, graph, 0) != OK)
			stream->exec = NULL;
	TRY(cuGraphDestroy, slot, 0, graph);
}

void change_capture(const struct draw *draw)
{
	uint64_t slot;
	struct stream *stream = drawn_stream(draw->a, &slot);
	int mode = (int)(draw->b % 3), status = 0;

	if (draw->c % 10 == 0) {
		TRY(cuThreadExchangeStreamCaptureMode, mode, 0, &mode);
		return;
	}
	if (draw->c % 10 == 1 && !stream->captures && stream->exec != NULL) {
		open_gates();
		TRY(cuGraphLaunch, slot, 0, stream->exec, stream->stream);
		TRY(cuStreamSynchronize, slot, 0, stream->stream);
		return;
	}
	if (stream->stream != NULL && draw->c % 10 == 2) {
		if (TRY(cuStreamIsCapturing, slot, 0, stream->stream, &status) == OK)
			note("the status", now_us(), OK, slot, (uint64_t)status);
		return;
	}
	if (stream->captures && draw->d % 3 != 0)
		end_capture(stream, slot);
	else if (TRY(cuStreamBeginCapture_v2, slot, mode, stream->stream, mode) == OK)
		stream->captures = true;
}

/* ---- green contexts ---- */

bool has_green;
static struct CUgreenCtx_st *green;

bool end_green(void)
{
	if (green == NULL)
		return true;
	open_gates();
	if (TRY(cuGreenCtxDestroy, 0, 0, green) == OK)
		green = NULL;
	return green == NULL;
}

void green_context(const struct draw *draw)
{
	struct CUdevResourceDesc_st *desc = NULL;
	struct fake_resource resource;

	/* Where nothing else holds the primary context it would be made here, and gone again. The
	 * pool is off for good after the first one, so only some runs have any. */
	if (!has_green || driver_version < 12040 || contexts[0].context == NULL ||
	    draw->b % 2 != 0 || !end_green())
		return;
	if (TRY(cuDeviceGetDevResource, 0, 0, 0, &resource, 1) == OK &&
	    TRY(cuDevResourceGenerateDesc, 0, 0, &desc, &resource, 1) == OK)
		TRY(cuGreenCtxCreate, 0, 0, &green, desc, 0, 1);
}
