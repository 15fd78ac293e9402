/* probe_costs.c -- what calls cost, in ns: median and 95th percentile. */
#include "probe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/driver.def"

enum {
	SAMPLES = 400,
	MOST_STREAMS = 32,
	KERNEL_MS = 2,
	KERNELS_QUEUED = 60,
	MOST_THREADS = 16,
	THREAD_SAMPLES = 1000
};

static double samples[SAMPLES];

/* Evaluates the call `count` times, or until so many ms have passed; how often it was. A call that
 * fails is said, and ends it. */
#define MEASURE(key, count, most_ms, call)                                                         \
	do {                                                                                       \
		size_t measured = 0;                                                               \
		int code = 0;                                                                      \
		uint64_t first = gpu_now_ns();                                                     \
		while (measured < (count) && gpu_now_ns() - first < (most_ms)*1000000ull) {        \
			uint64_t begin = gpu_now_ns();                                             \
			code = (call);                                                             \
			samples[measured++] = (double)(gpu_now_ns() - begin);                      \
			if (code != MT_CU_SUCCESS && code != MT_CU_NOT_READY)                      \
				break;                                                             \
		}                                                                                  \
		if (code != MT_CU_SUCCESS && code != MT_CU_NOT_READY)                              \
			say_code(code, "%s_code", key);                                            \
		else                                                                               \
			say_samples(samples, measured, "%s", key);                                 \
	} while (0)

void probe_machine(const char *argument)
{
	static const struct {
		int attribute;
		const char *name;
	} attributes[] = {{75, "compute_major"},
			  {76, "compute_minor"},
			  {16, "multiprocessors"},
			  {41, "unified_addressing"},
			  {31, "concurrent_kernels"},
			  {115, "memory_pools"},
			  {102, "virtual_memory_management"},
			  {89, "concurrent_managed_access"}};
	char name[128] = "";
	int number = 0;
	size_t free_bytes = 0;
	size_t total_bytes = 0;
	uint64_t begin = gpu_now_ns();

	(void)argument;
	gpu_start();
	say_number((double)(gpu_now_ns() - begin) / 1e6, "start_ms");
	gpu_ok(cu.cuDeviceGetName(name, sizeof name, 0));
	say_text(name, "device");
	say_bool(gpu_is_fake(), "is_fake");
	gpu_ok(cu.cuDriverGetVersion(&number));
	say_number(number, "cuda_version");
	gpu_ok(cu.cuDeviceGetCount(&number));
	say_number(number, "devices");
	gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	say_number((double)total_bytes, "total_bytes");
	say_number((double)free_bytes, "free_bytes");
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		if (cu.cuDeviceGetAttribute(&number, attributes[i].attribute, 0) == MT_CU_SUCCESS)
			say_number(number, "%s", attributes[i].name);
#define X(function, parameters, ...)                                                               \
	if (!dlsym(gpu_library, #function))                                                        \
		say_bool(false, "has_%s", #function);
	MT_DRIVER_FUNCTIONS(X)
#undef X
	FILE *module = fopen("/proc/driver/nvidia/version", "r");
	char line[200];

	if (module) {
		if (fgets(line, sizeof line, module))
			say_text(line, "kernel_module");
		fclose(module);
	}
}

void probe_call_costs(const char *argument)
{
	struct CUctx_st *context;
	struct CUctx_st *popped;
	struct CUstream_st *stream;
	struct CUevent_st *event;
	size_t free_bytes;
	size_t total_bytes;
	uint64_t base;
	size_t bytes;
	uint64_t block;
	uint64_t address;
	int value;

	(void)argument;
	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(1 << 20);
	gpu_ok(cu.cuCtxGetCurrent(&context));
	MEASURE("empty", SAMPLES, 1000, 0);
	MEASURE("cuCtxGetCurrent", SAMPLES, 1000, cu.cuCtxGetCurrent(&context));
	MEASURE("cuCtxGetDevice", SAMPLES, 1000, cu.cuCtxGetDevice(&value));
	MEASURE("cuCtxPushCurrent", SAMPLES, 1000, cu.cuCtxPushCurrent_v2(context));
	MEASURE("cuCtxPopCurrent", SAMPLES, 1000, cu.cuCtxPopCurrent_v2(&popped));
	gpu_ok(cu.cuCtxSetCurrent(context));
	value = MT_CU_CAPTURE_RELAXED;
	MEASURE("cuThreadExchangeStreamCaptureMode", SAMPLES, 1000,
		cu.cuThreadExchangeStreamCaptureMode(&value));
	MEASURE("cuStreamIsCapturing", SAMPLES, 1000, cu.cuStreamIsCapturing(stream, &value));
	MEASURE("cuEventCreate", SAMPLES, 1000,
		cu.cuEventCreate(&event, MT_CU_EVENT_DISABLE_TIMING));
	MEASURE("cuMemGetInfo", SAMPLES, 2000, cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	MEASURE("cuMemGetAddressRange", SAMPLES, 1000,
		cu.cuMemGetAddressRange_v2(&base, &bytes, block));
	MEASURE("cuPointerGetAttribute_context", SAMPLES, 1000,
		cu.cuPointerGetAttribute(&context, MT_CU_POINTER_CONTEXT, block));
	MEASURE("cuCtxSynchronize_idle", SAMPLES, 1000, cu.cuCtxSynchronize());
	MEASURE("launch", SAMPLES, 2000, gpu_try_spin(stream, 0));
	gpu_ok(cu.cuCtxSynchronize());
	if (gpu_has(cuMemAllocAsync)) {
		MEASURE("cuMemAllocAsync_cuMemFreeAsync_1MiB", SAMPLES, 2000,
			cu.cuMemAllocAsync(&address, 1 << 20, stream) |
				cu.cuMemFreeAsync(address, stream));
		gpu_ok(cu.cuCtxSynchronize());
	}
}

static struct CUstream_st *streams[MOST_STREAMS];
static int streams_count;

static void load_streams(void)
{
	for (int kernel = 0; kernel < KERNELS_QUEUED; kernel++)
		for (int i = 0; i < streams_count; i++)
			gpu_spin(streams[i], KERNEL_MS);
}

/* While busy every measurement begins with full queues and lasts at most a third of them: kernels
 * of one thread each run side by side, so 60 of 2 ms are 120 ms of work. */
#define LOADED(key, call)                                                                          \
	do {                                                                                       \
		char name[64];                                                                     \
		if (busy)                                                                          \
			load_streams();                                                            \
		snprintf(name, sizeof name, "%s_%s", key, busy ? "busy" : "idle");                 \
		MEASURE(name, SAMPLES, 40, call);                                                  \
		gpu_ok(cu.cuCtxSynchronize());                                                     \
	} while (0)

static void measure_events(struct CUctx_st *context, bool busy)
{
	struct CUevent_st *event = gpu_event();
	struct CUevent_st *ready = gpu_event();

	gpu_ok(cu.cuEventRecord(ready, streams[0]));
	gpu_ok(cu.cuCtxSynchronize());
	LOADED("cuEventRecord", cu.cuEventRecord(event, streams[0]));
	LOADED("cuEventQuery_ready", cu.cuEventQuery(ready));
	if (gpu_has(cuCtxRecordEvent)) {
		LOADED("cuCtxRecordEvent", cu.cuCtxRecordEvent(context, event));
		/* Of an event that was recorded over all streams: pending while they are busy. */
		if (busy)
			load_streams();
		gpu_ok(cu.cuCtxRecordEvent(context, event));
		MEASURE(busy ? "cuEventQuery_context_busy" : "cuEventQuery_context_idle", SAMPLES,
			40, cu.cuEventQuery(event));
		say_code(cu.cuEventQuery(event), "cuEventQuery_context_%s_code",
			 busy ? "busy" : "idle");
		gpu_ok(cu.cuCtxSynchronize());
	}
	if (gpu_has(cuCtxWaitEvent)) {
		gpu_ok(cu.cuEventRecord(event, streams[0]));
		LOADED("cuCtxWaitEvent", cu.cuCtxWaitEvent(context, event));
	}
}

void probe_event_costs(const char *count)
{
	struct CUctx_st *context;

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&context));
	streams_count = atoi(count);
	for (int i = 0; i < streams_count; i++)
		streams[i] = gpu_stream(GPU_STREAM_NON_BLOCKING);
	load_streams();
	gpu_ok(cu.cuCtxSynchronize());
	measure_events(context, false);
	measure_events(context, true);
}

/* ---- threads that record and query at the same time, each its own event and stream ---- */

static struct {
	struct CUctx_st *context;
	pthread_barrier_t start;
	double records[MOST_THREADS][THREAD_SAMPLES];
	double queries[MOST_THREADS][THREAD_SAMPLES];
} crowd;

static void *record_and_query(void *argument)
{
	const size_t me = (size_t)(uintptr_t)argument;
	struct CUstream_st *stream;
	struct CUevent_st *event;

	gpu_ok(cu.cuCtxSetCurrent(crowd.context));
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	event = gpu_event();
	pthread_barrier_wait(&crowd.start);
	for (size_t i = 0; i < THREAD_SAMPLES; i++) {
		uint64_t begin = gpu_now_ns();
		uint64_t middle;

		gpu_ok(cu.cuEventRecord(event, stream));
		middle = gpu_now_ns();
		(void)cu.cuEventQuery(event);
		crowd.records[me][i] = (double)(middle - begin);
		crowd.queries[me][i] = (double)(gpu_now_ns() - middle);
	}
	return NULL;
}

void probe_thread_costs(const char *threads)
{
	const size_t count = (size_t)atoi(threads);
	pthread_t ids[MOST_THREADS];

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&crowd.context));
	pthread_barrier_init(&crowd.start, NULL, (unsigned int)count);
	for (size_t i = 0; i < count; i++)
		gpu_expect(pthread_create(&ids[i], NULL, record_and_query, (void *)(uintptr_t)i) ==
				   0,
			   "no thread");
	for (size_t i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
	say_samples(crowd.records[0], count * THREAD_SAMPLES, "cuEventRecord");
	say_samples(crowd.queries[0], count * THREAD_SAMPLES, "cuEventQuery");
}
