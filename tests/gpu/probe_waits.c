/* probe_waits.c -- what waits for what: cuMemFree and cuMemAlloc for kernels, and what an event of
 * a context covers. */
#include "probe.h"

#include <string.h>

enum { LONG_MS = 200, BLOCK_BYTES = 4 << 20 };

struct work {
	struct CUctx_st *context; /* current when the work is enqueued */
	struct CUstream_st *stream;
};

static struct CUstream_st *stream_of_kind(const char *kind)
{
	if (strcmp(kind, "null") == 0)
		return NULL;
	if (strcmp(kind, "per_thread") == 0)
		return GPU_STREAM_PER_THREAD;
	return gpu_stream(strcmp(kind, "blocking") == 0 ? 0 : GPU_STREAM_NON_BLOCKING);
}

/* The time of a call, and whether the long kernel was still running after it: NOT_READY says that
 * the call did not wait. */
static void say_call(const char *name, int code, uint64_t begin_ns, struct CUevent_st *end_of_work)
{
	say_code(code, "%s_code", name);
	say_number((double)(gpu_now_ns() - begin_ns), "%s_ns", name);
	say_bool(cu.cuEventQuery(end_of_work) == MT_CU_SUCCESS, "%s_waits", name);
}

void probe_free_waits(const char *kind)
{
	struct CUctx_st *primary;
	struct CUstream_st *stream;
	struct CUevent_st *end;
	uint64_t block;
	uint64_t another;
	uint64_t begin;
	int code;

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&primary));
	block = gpu_alloc(BLOCK_BYTES);
	if (strcmp(kind, "other_context") == 0)
		gpu_context();
	stream = stream_of_kind(kind);
	end = gpu_event();
	gpu_spin(stream, 0);
	gpu_ok(cu.cuCtxSynchronize());

	gpu_spin(stream, LONG_MS);
	gpu_ok(cu.cuEventRecord(end, stream));
	gpu_ok(cu.cuCtxSetCurrent(primary));
	begin = gpu_now_ns();
	code = cu.cuMemAlloc_v2(&another, BLOCK_BYTES);
	say_call("alloc", code, begin, end);
	begin = gpu_now_ns();
	code = cu.cuMemFree_v2(block);
	say_call("free", code, begin, end);
	gpu_ok(cu.cuEventSynchronize(end));
}

/* ---- what an event of the primary context covers ---- */

static void enqueue_graph(struct CUstream_st *stream)
{
	struct CUgraph_st *graph;
	struct CUgraphExec_st *exec;

	gpu_ok(cu.cuStreamBeginCapture_v2(stream, MT_CU_CAPTURE_RELAXED));
	gpu_spin(stream, LONG_MS);
	gpu_ok(cu.cuStreamEndCapture(stream, &graph));
	exec = gpu_instantiate(graph);
	gpu_ok(cu.cuGraphLaunch(exec, stream));
}

/* The kernel is loaded through the green context made current, as a client of green contexts may
 * do. */
static struct CUctx_st *enqueue_green(struct CUstream_st **out_stream)
{
	struct CUgreenCtx_st *green;
	struct CUctx_st *context;

	if (!gpu_green(&green, out_stream))
		gpu_skip("no green contexts here");
	say_code(gpu_try_spin(*out_stream, 0), "launch_with_primary_current_code");
	gpu_ok(cu.cuCtxFromGreenCtx(&context, green));
	gpu_ok(cu.cuCtxSetCurrent(context));
	gpu_kernels();
	gpu_spin(*out_stream, LONG_MS);
	return context;
}

/* A copy into memory of device 0 that a stream of device 1 makes after a long kernel there. */
static struct CUctx_st *enqueue_peer_copy(struct CUctx_st *primary, struct CUstream_st **out_stream)
{
	struct CUctx_st *other;
	uint64_t to = gpu_alloc(BLOCK_BYTES);
	uint64_t from;
	int count = 0;
	int can = 0;

	gpu_ok(cu.cuDeviceGetCount(&count));
	if (count < 2 || !gpu_has(cuMemcpyPeerAsync) || !gpu_has(cuDeviceCanAccessPeer))
		gpu_skip("one device only");
	gpu_ok(cu.cuDeviceCanAccessPeer(&can, 1, 0));
	say_bool(can, "can_access_peer");
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&other, 1));
	gpu_ok(cu.cuCtxSetCurrent(other));
	gpu_kernels();
	if (can)
		gpu_ok(cu.cuCtxEnablePeerAccess(primary, 0));
	from = gpu_alloc(BLOCK_BYTES);
	*out_stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	gpu_spin(*out_stream, LONG_MS);
	gpu_ok(cu.cuMemcpyPeerAsync(to, primary, from, other, BLOCK_BYTES, *out_stream));
	return other;
}

/* Enqueues the work of that kind; the context in which it runs. */
static struct CUctx_st *enqueue(const char *kind, struct CUctx_st *primary,
				struct CUstream_st **out_stream)
{
	struct CUctx_st *context = primary;

	if (strcmp(kind, "green") == 0)
		return enqueue_green(out_stream);
	if (strcmp(kind, "peer_copy") == 0)
		return enqueue_peer_copy(primary, out_stream);
	if (strcmp(kind, "other_context") == 0)
		context = gpu_context();
	*out_stream = stream_of_kind(kind);
	if (strcmp(kind, "graph") == 0)
		enqueue_graph(*out_stream);
	else
		gpu_spin(*out_stream, LONG_MS);
	return context;
}

void probe_record_sees(const char *kind)
{
	struct CUctx_st *primary;
	struct CUctx_st *context;
	struct CUstream_st *stream;
	struct CUevent_st *event;
	uint64_t begin;
	int code;

	gpu_start();
	if (!gpu_has(cuCtxRecordEvent))
		gpu_skip("no cuCtxRecordEvent in this driver");
	gpu_ok(cu.cuCtxGetCurrent(&primary));
	event = gpu_event();
	context = enqueue(kind, primary, &stream);
	gpu_ok(cu.cuCtxSetCurrent(primary));
	begin = gpu_now_ns();
	code = cu.cuCtxRecordEvent(primary, event);
	say_code(code, "record_code");
	if (code == MT_CU_SUCCESS) {
		code = cu.cuEventQuery(event);
		say_code(code, "query_code");
		say_bool(code == MT_CU_NOT_READY, "sees");
		gpu_ok(cu.cuEventSynchronize(event));
		say_number((double)(gpu_now_ns() - begin) / 1e6, "ready_after_ms");
	}
	/* The same from a context made of the green one: it should cover only itself. */
	if (strcmp(kind, "green") == 0) {
		struct CUevent_st *own;

		gpu_ok(cu.cuCtxSynchronize());
		gpu_spin(NULL, LONG_MS);
		gpu_ok(cu.cuCtxSetCurrent(context));
		own = gpu_event();
		code = cu.cuCtxRecordEvent(context, own);
		say_code(code, "green_record_code");
		if (code == MT_CU_SUCCESS)
			say_bool(cu.cuEventQuery(own) == MT_CU_NOT_READY, "green_sees_primary");
	}
	gpu_ok(cu.cuCtxSynchronize());
}
