/* cuda_shortage.c -- programs that use all of a device, or wait on it in ways that their own calls
 * end. Each knows that the driver alone answers every call at once and without an error. Usage:
 * cuda_shortage WORD. Prints the answers; those of a driver alone are the same. "slow" is a call
 * that took longer than 100 ms. */
#include "cuda_shows.h"
#include "gpu/driver.def"

/* ---- threads beside each other ---- */

#define THREADS   4
#define ROUNDS    6000
#define LIVE_MOST (80 * MB)

static _Atomic size_t live;
static _Atomic unsigned failures;

static void *churn(void *argument)
{
	uint32_t random = 12345u + (uint32_t)(uintptr_t)argument;

	OK(cu.cuCtxSetCurrent(context));
	for (int i = 0; i < ROUNDS; i++) {
		size_t bytes = ((random = random * 1664525u + 1013904223u) >> 16) % 20 * MB + MB;
		uint64_t dptr = 0;

		while (atomic_fetch_add(&live, bytes) + bytes > LIVE_MOST) {
			atomic_fetch_sub(&live, bytes);
			sched_yield();
		}
		if (cu.cuMemAlloc_v2(&dptr, bytes) != 0)
			atomic_fetch_add(&failures, 1);
		else
			OK(cu.cuMemFree_v2(dptr));
		atomic_fetch_sub(&live, bytes);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t running[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&running[i], NULL, churn, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(running[i], NULL);
	printf("failures: %u\n", atomic_load(&failures));
}

/* A thread gives a block of 500 MB back, to make room for one of 400. Another one wants 600. */
static void *take_400(void *result)
{
	uint64_t dptr;

	OK(cu.cuCtxSetCurrent(context));
	*(int *)result = cu.cuMemAlloc_v2(&dptr, 400 * MB);
	return NULL;
}

static void beside_release(void)
{
	pthread_t thread;
	uint64_t dptr;
	int result, other;

	cache(500 * MB);
	pthread_create(&thread, NULL, take_400, &other);
	usleep(200000);
	result = cu.cuMemAlloc_v2(&dptr, 600 * MB);
	pthread_join(thread, NULL);
	printf("results: %d %d\n", result, other);
}

/* ---- sizes ---- */

static void slack(void)
{
	uint64_t blocks[8], last;

	for (int i = 0; i < 8; i++)
		blocks[i] = take(112 * MB);
	for (int i = 0; i < 8; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
	for (int i = 0; i < 8; i++)
		SHOW(cu.cuMemAlloc_v2(&blocks[i], 100 * MB));
	SHOW(cu.cuMemAlloc_v2(&last, 150 * MB));
}

/* No flush: what is cached serves the next request without the driver. */
static void absurd(void)
{
	uint64_t dptr;

	cache(600 * MB);
	OK(cu.cuLaunchHostFunc(stream, (void (*)(void *))(void (*)(void))usleep, (void *)300000));
	dptr = take(100 * MB);
	OK(cu.cuMemFree_v2(dptr));
	SHOW(cu.cuMemAlloc_v2(&dptr, 2000 * MB));
}

/* ---- beside a thread that captures, or makes and ends contexts ---- */

static _Atomic bool is_over;

static void *capture_now_and_then(void *unused)
{
	void *own, *graph;

	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuStreamCreate(&own, 1));
	while (!atomic_load(&is_over)) {
		OK(cu.cuStreamBeginCapture_v2(own, 1));
		usleep(500);
		OK(cu.cuStreamEndCapture(own, &graph));
		OK(cu.cuGraphDestroy(graph));
		usleep(500);
	}
	return unused;
}

static void *make_contexts(void *unused)
{
	void *other;

	while (!atomic_load(&is_over)) {
		OK(cu.cuCtxCreate_v2(&other, 0, 0));
		OK(cu.cuCtxDestroy_v2(other));
	}
	return unused;
}

static void turn_over(size_t bytes)
{
	uint64_t dptr = 0;

	if (cu.cuMemAlloc_v2(&dptr, bytes) != 0)
		failures++;
	else
		OK(cu.cuMemFree_v2(dptr));
}

static void turn_over_beside(void *(*other)(void *))
{
	double end = now_ms() + 500;
	pthread_t thread;

	pthread_create(&thread, NULL, other, NULL);
	while (now_ms() < end) {
		turn_over(600 * MB);
		turn_over(900 * MB);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	printf("failures: %u\n", failures);
}

static void beside_captures(void)
{
	turn_over_beside(capture_now_and_then);
}

static void beside_contexts(void)
{
	turn_over_beside(make_contexts);
}

/* Beside a capture that forbids it. */
static void refused_destroy(void)
{
	void *other, *graph;
	uint64_t dptr;

	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	cache(900 * MB);
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuStreamBeginCapture_v2(stream, 0));
	SHOW(cu.cuCtxDestroy_v2(other));
	SHOW(cu.cuStreamEndCapture(stream, &graph));
	SHOW(cu.cuMemAlloc_v2(&dptr, 900 * MB));
}

/* The array alone is larger than the device: nobody need wait for what is pending. */
static void absurd_array(void)
{
	struct cuda_array shape = {65536, 16384, 0x20, 2};
	uint64_t dptr = take(5 * MB);
	void *array;

	OK(cu.cuMemFree_v2(dptr));
	OK(cu.cuLaunchHostFunc(stream, (void (*)(void *))(void (*)(void))usleep, (void *)300000));
	SHOW(cu.cuArrayCreate_v2(&array, &shape));
}

/* ---- captures ---- */

static void (*beside)(void);

static void *run_beside(void *unused)
{
	OK(cu.cuCtxSetCurrent(context));
	beside();
	return unused;
}

/* The stream captures in the thread's own mode, so that other threads may do as they like. */
static void while_capturing(void (*act)(void))
{
	void *graph;
	pthread_t thread;

	OK(cu.cuStreamBeginCapture_v2(stream, 1));
	beside = act;
	pthread_create(&thread, NULL, run_beside, NULL);
	pthread_join(thread, NULL);
	SHOW(cu.cuStreamEndCapture(stream, &graph));
}

static void take_600(void)
{
	uint64_t dptr;

	SHOW(cu.cuMemAlloc_v2(&dptr, 600 * MB));
}

static void take_free_take(void)
{
	uint64_t dptr = take(600 * MB);

	SHOW(cu.cuMemFree_v2(dptr));
	take_600();
}

static void take_other_kinds(void)
{
	struct cuda_allocation_prop prop = {.type = 1, .location = {1, 0}};
	unsigned long long handle;
	void *other;
	uint64_t dptr;

	OK(cu.cuStreamCreate(&other, 1));
	SHOW(cu.cuMemAllocAsync(&dptr, 800 * MB, other));
	SHOW(cu.cuMemFreeAsync(dptr, other));
	SHOW(cu.cuStreamSynchronize(other));
	cache(800 * MB);
	SHOW(cu.cuMemAllocManaged(&dptr, 700 * MB, 1));
	SHOW(cu.cuMemFree_v2(dptr));
	cache(800 * MB);
	SHOW(cu.cuMemCreate(&handle, 700 * MB, &prop, 0));
	SHOW(cu.cuMemRelease(handle));
}

static void captures(void)
{
	cache(600 * MB);
	while_capturing(take_free_take);
}

static void capture_kinds(void)
{
	cache(800 * MB);
	while_capturing(take_other_kinds);
}

/* ---- host functions that wait for the program ---- */

static void host_idle(void)
{
	uint64_t dptr;

	cache(600 * MB);
	let_wait();
	SHOW(cu.cuMemAlloc_v2(&dptr, 700 * MB));
}

static void host_pending(void)
{
	uint64_t dptr = take(600 * MB);

	OK(cu.cuMemFree_v2(dptr));
	let_wait();
	SHOW(cu.cuMemAlloc_v2(&dptr, 700 * MB));
}

/* Too small for a fence of its own. */
static void host_small(void)
{
	uint64_t dptr = take(14 * MB);

	OK(cu.cuMemFree_v2(dptr));
	let_wait();
	SHOW(cu.cuMemAlloc_v2(&dptr, 990 * MB));
}

/* ---- kernels that were launched after the free ---- */

/* A kernel of 3 s; no call of the driver alone waits for it. */
static void launch_delay(void)
{
	uint32_t delay_us = 3000000;
	void *parameters[] = {&delay_us};
	void *module, *kernel;

	OK(cu.cuModuleLoadData(&module, "any"));
	OK(cu.cuModuleGetFunction(&kernel, module, "fake_delay"));
	OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* Too small for a fence of its own on an empty device. */
static void kernel_small(void)
{
	uint64_t dptr;

	(void)take(900 * MB);
	dptr = take(14 * MB);
	OK(cu.cuMemFree_v2(dptr));
	launch_delay();
	SHOW(cu.cuMemAlloc_v2(&dptr, 94 * MB));
}

/* The device becomes full after the free. */
static void kernel_filled(void)
{
	uint64_t dptr = take(14 * MB);

	OK(cu.cuMemFree_v2(dptr));
	(void)take(900 * MB);
	launch_delay();
	SHOW(cu.cuMemAlloc_v2(&dptr, 94 * MB));
}

/* The work of the other context waits for the program. */
static void kernel_contexts(void)
{
	uint64_t dptr;
	void *other, *waiting, *event;

	(void)take(900 * MB);
	dptr = take(14 * MB);
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuStreamCreate(&waiting, 1));
	OK(cu.cuEventCreate(&event, 2));
	OK(cu.cuLaunchHostFunc(waiting, wait_for_release, NULL));
	OK(cu.cuEventRecord(event, waiting));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuMemFree_v2(dptr));
	OK(cu.cuStreamWaitEvent(stream, event, 0));
	SHOW(cu.cuMemAlloc_v2(&dptr, 94 * MB));
}

/* ---- what is free while blocks go back ---- */

static void free_while_blocks_go_back(void)
{
	uint64_t blocks[60];
	size_t free_bytes, total, least = SIZE_MAX;
	double end;

	for (int i = 0; i < 60; i++)
		blocks[i] = take(4 * MB);
	for (int i = 0; i < 60; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
	for (end = now_ms() + 1500; now_ms() < end;) {
		OK(cu.cuMemGetInfo_v2(&free_bytes, &total));
		least = free_bytes < least ? free_bytes : least;
	}
	printf("free: %zu MB\n", least / MB);
}

static void host_green(void)
{
	int (*get)(int, void *, int) =
		(int (*)(int, void *, int))(uintptr_t)dlsym(RTLD_DEFAULT, "cuDeviceGetDevResource");
	int (*describe)(void **, void *, unsigned) = (int (*)(void **, void *, unsigned))(
		uintptr_t)dlsym(RTLD_DEFAULT, "cuDevResourceGenerateDesc");
	int (*create)(void **, void *, int, unsigned) = (int (*)(void **, void *, int, unsigned))(
		uintptr_t)dlsym(RTLD_DEFAULT, "cuGreenCtxCreate");
	char resource[256];
	void *description, *green;

	OK(get(0, resource, 1));
	OK(describe(&description, resource, 1));
	cache(600 * MB);
	let_wait();
	SHOW(create(&green, description, 0, 1));
}

static void host_capture(void)
{
	uint64_t dptr = take(MB);

	OK(cu.cuMemFree_v2(dptr));
	let_wait();
	SHOW(cu.cuMemAlloc_v2(&dptr, MB));
	OK(cu.cuMemFree_v2(dptr));
	while_capturing(take_600);
}

/* ---- calls that take memory without being asked for any ---- */

/* Each on its first meeting with a full device. The arguments are none: what the driver says to
 * those is not the point. */
static void calls(void)
{
	static const char *const names[] = {
#define X(name, ...) #name,
		MT_DRIVER_RETRIED(X) MT_DRIVER_COPIES(X)
#undef X
			"cuDevicePrimaryCtxRetain",
		"cuMemMap",
		"cuMemHostRegister_v2",
		"cuMemHostUnregister",
		"cuIpcGetMemHandle",
		"cuMulticastBindAddr",
		"cuCtxEnablePeerAccess",
		"cuCtxCreate",
		"cuCtxCreate_v2",
		"cuCtxCreate_v3",
		"cuCtxCreate_v4",
		"cuGreenCtxCreate",
	};
	typedef int function(void *, size_t, size_t, size_t, size_t, size_t, size_t, size_t, void *,
			     void *, void *);
	int (*fail)(const char *, unsigned int, int) = (int (*)(const char *, unsigned int, int))(
		uintptr_t)dlsym(RTLD_DEFAULT, "fakecuda_fail");
	uint64_t (*used)(int) =
		(uint64_t(*)(int))(uintptr_t)dlsym(RTLD_DEFAULT, "fakecuda_used_bytes");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		function *call = (function *)(uintptr_t)dlsym(RTLD_DEFAULT, names[i]);
		int plain, retried;

		if (!call)
			continue;
		plain = call(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
		cache(100 * MB);
		fail(names[i], 1, 2);
		retried = call(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
		printf("%s: %s\n", names[i],
		       plain == 2         ? "is out of memory"
		       : retried != plain ? "fails"
		       : used(0)          ? "keeps"
					  : "fine");
	}
}

/* Takes and frees 400 MB in turn, for 2 s. */
static void busy(void)
{
	double end_ms = now_ms() + 2000;
	unsigned calls = 0, failures = 0;
	uint64_t dptr;

	while (now_ms() < end_ms) {
		calls++;
		if (cu.cuMemAlloc_v2(&dptr, 400 * MB) == 0)
			OK(cu.cuMemFree_v2(dptr));
		else
			failures++;
		usleep(200);
	}
	printf("%u %u\n", calls, failures);
}

static const struct cuda_word words[] = {
	{"busy", busy},
	{"threads", threads},
	{"beside_release", beside_release},
	{"slack", slack},
	{"absurd", absurd},
	{"absurd_array", absurd_array},
	{"beside_captures", beside_captures},
	{"beside_contexts", beside_contexts},
	{"refused_destroy", refused_destroy},
	{"captures", captures},
	{"capture_kinds", capture_kinds},
	{"host_idle", host_idle},
	{"host_pending", host_pending},
	{"host_small", host_small},
	{"host_green", host_green},
	{"host_capture", host_capture},
	{"kernel_small", kernel_small},
	{"kernel_filled", kernel_filled},
	{"kernel_contexts", kernel_contexts},
	{"free_while_blocks_go_back", free_while_blocks_go_back},
	{"calls", calls},
};

int main(int argc, char **argv)
{
	return cuda_run_word(argc, argv, words, sizeof(words) / sizeof(words[0]));
}
