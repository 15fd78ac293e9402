/* cuda_frees.c -- programs that free behind running work, and rely on it that cuMemFree waits or
 * that it does not hold memory. Usage: cuda_frees WORD. "peak" is what the stand-in had lent of
 * device 0 at most, after any allocation. */
#include "cuda_shows.h"

static void *delay, *fill, *fault;

/* Those of the current context. */
static void load_kernels(void)
{
	static void *loaded_in;
	void *module, *current;

	OK(cu.cuCtxGetCurrent(&current));
	if (current == loaded_in)
		return;
	loaded_in = current;
	OK(cu.cuModuleLoadData(&module, "nothing"));
	OK(cu.cuModuleGetFunction(&delay, module, "fake_delay"));
	OK(cu.cuModuleGetFunction(&fill, module, "fake_fill"));
	OK(cu.cuModuleGetFunction(&fault, module, "fake_illegal"));
}

static int run_kernel(void *const *kernel, uint32_t us)
{
	void *parameters[] = {&us};

	load_kernels();
	return cu.cuLaunchKernel(*kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static uint64_t used(int device)
{
	static uint64_t (*ask)(int);

	if (!ask)
		ask = (uint64_t(*)(int))(uintptr_t)dlsym(RTLD_DEFAULT, "fakecuda_used_bytes");
	return ask(device);
}

static uint64_t peak;

static uint64_t take_counted(size_t bytes)
{
	uint64_t dptr = take(bytes);

	peak = used(0) > peak ? used(0) : peak;
	return dptr;
}

static void show_peak(void)
{
	printf("peak: %llu MB\n", (unsigned long long)(peak / MB));
}

/* 20 steps of 100 kernels, each on a temporary of 4 MB that is freed at once. */
static void steps(void)
{
	for (int step = 0; step < 20; step++) {
		for (int i = 0; i < 100; i++) {
			uint64_t dptr = take_counted(4 * MB);

			OK(run_kernel(&delay, 100));
			OK(cu.cuMemFree_v2(dptr));
		}
		OK(cu.cuCtxSynchronize());
	}
	show_peak();
}

static void one_stream(void)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t dptr = take_counted(10 * MB);

		OK(run_kernel(&delay, 2000));
		OK(cu.cuMemFree_v2(dptr));
	}
	show_peak();
}

/* Sizes that no cached block fits. */
static void growing(void)
{
	for (int i = 1; i <= 40; i++) {
		uint64_t dptr = take_counted((size_t)i * 4 * MB);

		OK(run_kernel(&delay, 1000));
		OK(cu.cuMemFree_v2(dptr));
	}
	show_peak();
}

/* Device 1 has a queue of 2 s; device 0 uses one synchronised block of 10 MB at a time. */
static void two_devices(void)
{
	void *busy;

	OK(cu.cuCtxCreate_v2(&busy, 0, 1));
	OK(cu.cuStreamCreate(&stream, 1));
	(void)take(10 * MB);
	OK(run_kernel(&delay, 2000000));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuStreamCreate(&stream, 1));
	for (int i = 0; i < 200; i++) {
		uint64_t dptr = take_counted(10 * MB);

		OK(run_kernel(&delay, 100));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuMemFree_v2(dptr));
	}
	show_peak();
	printf("device 1: %llu MB\n", (unsigned long long)(used(1) / MB));
}

/* The free makes the copied bytes readable, as it waits for the copy. */
static void copy_then_read(void)
{
	int (*copy)(void *, uint64_t, size_t, void *) = (int (*)(void *, uint64_t, size_t, void *))(
		uintptr_t)dlsym(RTLD_DEFAULT, "cuMemcpyDtoHAsync_v2");
	unsigned char *host;
	int wrong = 0;

	load_kernels();
	OK(cu.cuMemHostAlloc((void **)&host, MB, 0));
	for (int i = 0; i < 5; i++) {
		uint64_t dptr = take(MB), bytes = MB;
		uint32_t byte = (uint32_t)i + 1, us = 20000;
		void *parameters[] = {&dptr, &bytes, &byte, &us};

		OK(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
		OK(copy(host, dptr, MB, stream));
		OK(cu.cuMemFree_v2(dptr));
		wrong += host[0] != byte || host[MB - 1] != byte;
	}
	printf("wrong: %d of 5\n", wrong);
}

/* The last calls that the program checks are frees. */
static void faulting_kernel(void)
{
	uint64_t one = take(MB), other = take(MB);

	OK(run_kernel(&fault, 20000));
	(void)cu.cuMemFree_v2(one);
	OK(cu.cuMemFree_v2(other));
}

static void freed_twice(void)
{
	uint64_t dptr = take(MB);

	OK(run_kernel(&delay, 20000));
	SHOW(cu.cuMemFree_v2(dptr));
	SHOW(cu.cuMemFree_v2(dptr));
}

static void other_context(void)
{
	uint64_t dptr = take(MB);
	void *other;

	OK(run_kernel(&delay, 150000));
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	SHOW(cu.cuMemFree_v2(dptr));
	OK(cu.cuCtxSetCurrent(context));
	SHOW(cu.cuMemFree_v2(dptr));
}

/* Another context of the device runs a kernel of 2 s, for which the driver's free does not wait.
 * Meanwhile this one allocates and frees a set of blocks, again and again. */
static void beside_context(int blocks_count, int turns)
{
	void *busy;
	uint64_t blocks[20];
	double slowest = 0;

	OK(cu.cuCtxCreate_v2(&busy, 0, 0));
	OK(cu.cuStreamCreate(&stream, 1));
	OK(run_kernel(&delay, 2000000));
	OK(cu.cuCtxSetCurrent(context));
	for (int turn = 0; turn < turns; turn++) {
		double begin = now_ms(), took;

		for (int i = 0; i < blocks_count; i++)
			blocks[i] = take_counted(10 * MB);
		for (int i = 0; i < blocks_count; i++)
			OK(cu.cuMemFree_v2(blocks[i]));
		took = now_ms() - begin;
		slowest = took > slowest ? took : slowest;
	}
	show_peak();
	printf("%s\n", slowest > 500 ? "slow" : "at once");
}

static void one_beside_context(void)
{
	beside_context(1, 100);
}

static void many_beside_context(void)
{
	beside_context(20, 10);
}

/* Each round's block is allocated in a relaxed capture, where the driver permits it, and freed
 * after its end. */
static void in_captures(void)
{
	for (int i = 0; i < 50; i++) {
		uint64_t dptr;
		void *graph;

		OK(cu.cuStreamBeginCapture_v2(stream, 2));
		dptr = take_counted(10 * MB);
		OK(cu.cuStreamEndCapture(stream, &graph));
		OK(cu.cuGraphDestroy(graph));
		OK(cu.cuMemFree_v2(dptr));
	}
	show_peak();
}

/* 100 blocks of 2 MB, then 100 of 1 MB, each of which takes 2 MB of the driver. */
static void half_pages(void)
{
	for (size_t bytes = 2 * MB; bytes >= MB; bytes /= 2) {
		uint64_t blocks[100];

		for (int i = 0; i < 100; i++)
			blocks[i] = take_counted(bytes);
		for (int i = 0; i < 100; i++)
			OK(cu.cuMemFree_v2(blocks[i]));
	}
	show_peak();
}

/* A block, and 40 smaller ones of its bin that are freed after it. */
static void close_sizes(void)
{
	uint64_t (*calls)(const char *) =
		(uint64_t(*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "fakecuda_calls");
	uint64_t before = 0;

	for (int turn = 0; turn < 20; turn++) {
		uint64_t block, smaller[40];

		before = turn == 1 ? calls("cuMemAlloc_v2") : before;
		block = take(2 * MB + 16384);
		for (int i = 0; i < 40; i++)
			smaller[i] = take(2 * MB + 512);
		OK(cu.cuMemFree_v2(block));
		for (int i = 0; i < 40; i++)
			OK(cu.cuMemFree_v2(smaller[i]));
	}
	printf("more from the driver: %d\n", (int)(calls("cuMemAlloc_v2") - before));
}

/* What lies cached is there for another process: used by this one at the end. */
static void neighbour(void)
{
	one_stream();
	printf("used: %llu MB\n", (unsigned long long)(used(0) / MB));
}

/* Nothing is live, and nearly all of the device is cached for a while. */
static void idle_cache(void)
{
	uint64_t blocks[95];

	for (int i = 0; i < 95; i++)
		blocks[i] = take(10 * MB);
	for (int i = 0; i < 94; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
	sleep(3);
	printf("used: %llu MB\n", (unsigned long long)(used(0) / MB));
}

static void *free_it(void *block)
{
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuMemFree_v2((uint64_t)(uintptr_t)block));
	return NULL;
}

/* Another thread frees 10 MB behind a kernel of 2 s; 900 MB beside 500 can never be there. */
static void hopeless(void)
{
	uint64_t kept = take(500 * MB), block = take(10 * MB), dptr;
	pthread_t thread;

	OK(run_kernel(&delay, 2000000));
	pthread_create(&thread, NULL, free_it, (void *)(uintptr_t)block);
	usleep(100000);
	for (int i = 0; i < 2; i++)
		SHOW(cu.cuMemAlloc_v2(&dptr, 900 * MB));
	pthread_join(thread, NULL);
	OK(cu.cuMemFree_v2(kept));
}

/* A copy between devices by the batch, as CUDA 12.8 and 12.9 have it: work of the other device may
 * use the block, which is the driver's after its free. */
static void batch_copy(void)
{
	void *loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *other;
	int (*copy)(uint64_t *, uint64_t *, size_t *, size_t, void *, size_t *, size_t, size_t *,
		    void *) =
		(int (*)(uint64_t *, uint64_t *, size_t *, size_t, void *, size_t *, size_t,
			 size_t *, void *))(uintptr_t)dlsym(loaded, "cuMemcpyBatchAsync");
	uint64_t from = take(10 * MB), to;
	size_t bytes = MB, attributes = 0, failed = 0;

	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	to = take(10 * MB);
	SHOW(copy(&to, &from, &bytes, 1, NULL, &attributes, 0, &failed, stream));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuMemFree_v2(from));
	printf("used: %llu MB\n", (unsigned long long)(used(0) / MB));
}

static const struct cuda_word words[] = {
	{"steps", steps},
	{"one_stream", one_stream},
	{"growing", growing},
	{"two_devices", two_devices},
	{"copy_then_read", copy_then_read},
	{"faulting_kernel", faulting_kernel},
	{"freed_twice", freed_twice},
	{"other_context", other_context},
	{"one_beside_context", one_beside_context},
	{"many_beside_context", many_beside_context},
	{"in_captures", in_captures},
	{"half_pages", half_pages},
	{"close_sizes", close_sizes},
	{"neighbour", neighbour},
	{"idle_cache", idle_cache},
	{"hopeless", hopeless},
	{"batch_copy", batch_copy},
};

int main(int argc, char **argv)
{
	(void)let_wait;
	(void)cache;
	return cuda_run_word(argc, argv, words, sizeof(words) / sizeof(words[0]));
}
