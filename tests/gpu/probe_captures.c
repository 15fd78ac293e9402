/* probe_captures.c -- what a call does to a capture in progress: its result, and whether the
 * capture survives it. */
#include "probe.h"

#include <pthread.h>
#include <string.h>

struct capture {
	int mode;
	bool same_thread;
	bool relaxed; /* the calling thread has exchanged its capture mode for relaxed */
	struct CUctx_st *context;
	/* Made before the capture, for the calls to work on. */
	uint64_t block;
	uint64_t spare[2];
	struct CUevent_st *recorded;
	struct CUevent_st *unused;
	struct CUstream_st *other;
	int (*call)(struct capture *capture);
	int code;
};

static int call_nothing(struct capture *capture)
{
	(void)capture;
	return MT_CU_SUCCESS;
}

static int call_alloc(struct capture *capture)
{
	uint64_t address;
	int code = cu.cuMemAlloc_v2(&address, 1 << 20);

	(void)capture;
	return code;
}

static int call_free(struct capture *capture)
{
	return cu.cuMemFree_v2(capture->spare[0]);
}

static int call_event_query(struct capture *capture)
{
	return cu.cuEventQuery(capture->recorded);
}

static int call_event_record(struct capture *capture)
{
	return cu.cuEventRecord(capture->unused, capture->other);
}

static int call_event_create(struct capture *capture)
{
	struct CUevent_st *event;

	(void)capture;
	return cu.cuEventCreate(&event, MT_CU_EVENT_DISABLE_TIMING);
}

static int call_event_destroy(struct capture *capture)
{
	return cu.cuEventDestroy_v2(capture->unused);
}

static int call_context_record(struct capture *capture)
{
	return cu.cuCtxRecordEvent(capture->context, capture->unused);
}

static int call_context_synchronize(struct capture *capture)
{
	(void)capture;
	return cu.cuCtxSynchronize();
}

static int call_push_pop(struct capture *capture)
{
	struct CUctx_st *popped;
	int code = cu.cuCtxPushCurrent_v2(capture->context);

	return code ? code : cu.cuCtxPopCurrent_v2(&popped);
}

static int call_info(struct capture *capture)
{
	size_t free_bytes;
	size_t total_bytes;

	(void)capture;
	return cu.cuMemGetInfo_v2(&free_bytes, &total_bytes);
}

static int call_launch_other(struct capture *capture)
{
	return gpu_try_spin(capture->other, 0);
}

static int call_synchronize_other(struct capture *capture)
{
	return cu.cuStreamSynchronize(capture->other);
}

static int call_vmm_create(struct capture *capture)
{
	struct mt_cu_allocation_prop prop = {.type = 1, .location = {1, 0}};
	unsigned long long handle;

	(void)capture;
	return cu.cuMemCreate(&handle, 2 << 20, &prop, 0);
}

static int call_pool_trim(struct capture *capture)
{
	struct CUmemPoolHandle_st *pool;
	int code = cu.cuDeviceGetDefaultMemPool(&pool, 0);

	(void)capture;
	return code ? code : cu.cuMemPoolTrimTo(pool, 0);
}

static int call_graph_trim(struct capture *capture)
{
	(void)capture;
	return cu.cuDeviceGraphMemTrim(0);
}

static int call_host_alloc(struct capture *capture)
{
	void *address;

	(void)capture;
	return cu.cuMemHostAlloc(&address, 1 << 20, 0);
}

static const struct {
	const char *name;
	int (*call)(struct capture *capture);
} calls[] = {
	{"nothing", call_nothing},
	{"cuCtxPushCurrent_cuCtxPopCurrent", call_push_pop},
	{"cuMemAlloc", call_alloc},
	{"cuMemFree", call_free},
	{"cuMemGetInfo", call_info},
	{"cuMemHostAlloc", call_host_alloc},
	{"cuMemCreate", call_vmm_create},
	{"cuMemPoolTrimTo", call_pool_trim},
	{"cuDeviceGraphMemTrim", call_graph_trim},
	{"cuEventCreate", call_event_create},
	{"cuEventDestroy", call_event_destroy},
	{"cuEventQuery", call_event_query},
	{"cuEventRecord", call_event_record},
	{"cuLaunchKernel", call_launch_other},
	{"cuStreamSynchronize", call_synchronize_other},
	{"cuCtxRecordEvent", call_context_record},
	{"cuCtxSynchronize", call_context_synchronize},
};

static void *calling_thread(void *argument)
{
	struct capture *capture = argument;
	int mode = MT_CU_CAPTURE_RELAXED;

	if (!capture->same_thread)
		gpu_ok(cu.cuCtxSetCurrent(capture->context));
	if (capture->relaxed)
		gpu_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	capture->code = capture->call(capture);
	if (capture->relaxed)
		gpu_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	return NULL;
}

static void try_call(struct capture *capture, const char *name)
{
	struct CUstream_st *stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	struct CUgraph_st *graph = NULL;
	pthread_t thread;
	int end;

	capture->spare[0] = gpu_alloc(1 << 20);
	capture->unused = gpu_event();
	gpu_ok(cu.cuStreamBeginCapture_v2(stream, capture->mode));
	gpu_ok(gpu_fill(stream, capture->block, 1024, 1));
	if (capture->same_thread)
		calling_thread(capture);
	else if (pthread_create(&thread, NULL, calling_thread, capture) == 0)
		pthread_join(thread, NULL);
	end = cu.cuStreamEndCapture(stream, &graph);
	say_code(capture->code, "%s_code", name);
	say_code(end, "%s_end_code", name);
	say_bool(end == MT_CU_SUCCESS && graph, "%s_survives", name);
	if (graph)
		cu.cuGraphDestroy(graph);
	cu.cuStreamDestroy_v2(stream);
	gpu_ok(cu.cuCtxSynchronize());
}

void probe_capture(const char *argument)
{
	struct capture capture = {.mode = MT_CU_CAPTURE_RELAXED};

	if (strncmp(argument, "global", 6) == 0)
		capture.mode = MT_CU_CAPTURE_GLOBAL;
	if (strncmp(argument, "thread", 6) == 0)
		capture.mode = MT_CU_CAPTURE_THREAD_LOCAL;
	capture.same_thread = strstr(argument, " same ") != NULL;
	capture.relaxed = strstr(argument, " relaxed") != NULL;
	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&capture.context));
	capture.block = gpu_alloc(1 << 20);
	capture.other = gpu_stream(GPU_STREAM_NON_BLOCKING);
	capture.recorded = gpu_event();
	gpu_ok(cu.cuEventRecord(capture.recorded, capture.other));
	gpu_spin(capture.other, 0);
	gpu_ok(cu.cuCtxSynchronize());
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		capture.call = calls[i].call;
		try_call(&capture, calls[i].name);
	}
}
