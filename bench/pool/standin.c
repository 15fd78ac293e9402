/* standin.c -- what a cuMemAlloc and cuMemFree cost on the stand-in driver, and which calls of the
 * driver they make: `make bench-pool` runs it without the shim and with it. Prints one JSON object:
 * ns of a pair on an idle device (the least of many batches; in 4 threads: the median of all; for
 * sizes that no cached block fits), ms of a free behind a kernel of 2 ms (the median), and calls a
 * pair by name. */
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 200, BATCH = 500, BUSY = 51, BYTES = 4096, THREADS = 4, SIZES = 300 };

static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2",      "cuCtxGetCurrent",
				    "cuStreamQuery", "cuEventQuery",      "cuCtxRecordEvent",
				    "cuEventCreate", "cuEventDestroy_v2", "cuEventSynchronize"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static uint64_t (*calls_of)(const char *);

static void pair(size_t bytes)
{
	gpu_ok(cu.cuMemFree_v2(gpu_alloc(bytes)));
}

static void measure(double ns[BATCHES])
{
	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t begin = gpu_now_ns();

		for (int i = 0; i < BATCH; i++)
			pair(BYTES);
		ns[batch] = (double)(gpu_now_ns() - begin) / BATCH;
	}
}

static double least_ns(void)
{
	double ns[BATCHES];

	measure(ns);
	return gpu_quantile(ns, BATCHES, 0);
}

static struct CUctx_st *context;

static void *run_thread(void *ns)
{
	gpu_ok(cu.cuCtxSetCurrent(context));
	measure(ns);
	return NULL;
}

static double threads_ns(void)
{
	static double ns[THREADS][BATCHES];
	pthread_t threads[THREADS];

	gpu_ok(cu.cuCtxGetCurrent(&context));
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_thread, ns[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return gpu_quantile(ns[0], (size_t)THREADS * BATCHES, 0.5);
}

static double miss_ns(void)
{
	double ns[SIZES];

	for (size_t i = 0; i < SIZES; i++) {
		uint64_t begin = gpu_now_ns();

		pair((i + 1) << 17);
		ns[i] = (double)(gpu_now_ns() - begin);
	}
	return gpu_quantile(ns, SIZES, 0.5);
}

static double busy_ms(void)
{
	struct CUstream_st *stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	double samples[BUSY];

	for (int i = 0; i < BUSY; i++) {
		uint64_t block = gpu_alloc(BYTES), begin;

		gpu_spin(stream, 2);
		begin = gpu_now_ns();
		gpu_ok(cu.cuMemFree_v2(block));
		samples[i] = (double)(gpu_now_ns() - begin) / 1e6;
	}
	return gpu_quantile(samples, BUSY, 0.5);
}

int main(void)
{
	uint64_t before[NAMES];

	gpu_start();
	calls_of = (uint64_t(*)(const char *))(uintptr_t)dlsym(gpu_library, "fakecuda_calls");
	if (!calls_of)
		gpu_skip("not the stand-in driver");
	pair(BYTES);
	for (size_t i = 0; i < NAMES; i++)
		before[i] = calls_of(names[i]);
	printf("{\"pair_ns\": %.0f", least_ns());
	for (size_t i = 0; i < NAMES; i++)
		printf(", \"%s\": %.3f", names[i],
		       (double)(calls_of(names[i]) - before[i]) / (BATCHES * BATCH));
	printf(", \"threads_ns\": %.0f, \"miss_ns\": %.0f", threads_ns(), miss_ns());
	printf(", \"busy_free_ms\": %.3f}\n", busy_ms());
	return 0;
}
