/* pairs.c -- what a pair of allocation and free costs, by size; one JSON object.
 *   pairs WHAT [MS]   at most so many ms for each figure, 250 where nothing is said; WHAT is one of
 *   sync     cuMemAlloc and cuMemFree: the driver's, or the pool's where the shim is loaded
 *   async    cuMemAllocAsync and cuMemFreeAsync, the default pool keeping everything
 *   sample   measures nothing: for each line on stdin, the fewest free bytes of the device since the last line, and
 *            those free now, by the driver's own cuMemGetInfo every 2 ms
 * Three shapes: `pair` frees at once; `window` keeps 16 live; `used` launches a kernel on the block before each free. */
#include "gpu.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 16, MOST = 20000, LEAST = 30, RELEASE_THRESHOLD = 4 };

static bool is_async;
static struct CUstream_st *stream;
static double samples[MOST];
static uint64_t for_ms = 250;

static uint64_t take(size_t bytes)
{
	uint64_t block;

	gpu_ok(is_async ? cu.cuMemAllocAsync(&block, bytes, stream) : cu.cuMemAlloc_v2(&block, bytes));
	return block;
}

static void give(uint64_t block)
{
	gpu_ok(is_async ? cu.cuMemFreeAsync(block, stream) : cu.cuMemFree_v2(block));
}

/* Blocks in turn through a window: each step frees the oldest and takes a new one. The kernel's launch is not counted. */
static size_t measure(size_t bytes, size_t window, bool is_used)
{
	uint64_t live[WINDOW];
	uint64_t first;
	size_t count = 0;

	for (size_t i = 0; i < window; i++)
		live[i] = take(bytes);
	gpu_ok(cu.cuCtxSynchronize());
	first = gpu_now_ns();
	while (count < MOST && (count < LEAST || gpu_now_ns() - first < for_ms * 1000000)) {
		uint64_t begin;

		if (is_used)
			gpu_ok(gpu_fill(stream, live[count % window], 512, 1));
		begin = gpu_now_ns();
		give(live[count % window]);
		live[count % window] = take(bytes);
		samples[count++] = (double)(gpu_now_ns() - begin);
	}
	for (size_t i = 0; i < window; i++)
		give(live[i]);
	gpu_ok(cu.cuCtxSynchronize());
	return count;
}

static void say(const char *shape, const char *size, size_t count)
{
	static int said;

	printf("%s \"%s_%s_ns\": %.0f", said++ ? "," : "{", shape, size, gpu_quantile(samples, count, 0.5));
	printf(", \"%s_%s_p95_ns\": %.0f", shape, size, gpu_quantile(samples, count, 0.95));
}

static void keep_everything(void)
{
	struct CUmemPoolHandle_st *pool;
	uint64_t all = UINT64_MAX;

	if (!gpu_has(cuMemAllocAsync) || !gpu_has(cuMemPoolSetAttribute))
		gpu_skip("no cuMemAllocAsync in this driver");
	gpu_ok(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	gpu_ok(cu.cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &all));
}

static int sample(void)
{
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	uint64_t least = UINT64_MAX;

	for (;;) {
		uint64_t now = gpu_free_bytes();
		char line[64];
		ssize_t got;

		least = now < least ? now : least;
		if (poll(&input, 1, 2) <= 0)
			continue;
		got = read(STDIN_FILENO, line, sizeof line);
		if (got <= 0)
			return 0;
		printf("%llu %llu\n", (unsigned long long)least, (unsigned long long)now);
		fflush(stdout);
		least = UINT64_MAX;
	}
}

int main(int argc, char **argv)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = { { 512, "512B" },	       { 65536, "64KiB" },	  { 1 << 20, "1MiB" },
		      { 16 << 20, "16MiB" }, { 256 << 20, "256MiB" }, { 1ull << 30, "1GiB" } };

	size_t free_bytes;
	size_t total_bytes;

	gpu_start();
	if (argc == 2 && strcmp(argv[1], "sample") == 0)
		return sample();
	is_async = argc >= 2 && strcmp(argv[1], "async") == 0;
	if (argc < 2 || argc > 3 || (!is_async && strcmp(argv[1], "sync") != 0)) {
		fprintf(stderr, "pairs sync|async [MS], pairs sample\n");
		return 2;
	}
	if (argc == 3)
		for_ms = strtoull(argv[2], NULL, 10);
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	if (is_async)
		keep_everything();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		/* With room for the window more than twice: freed blocks may wait for their kernels. What a pool keeps counts as
		 * free here. */
		gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
		if (sizes[i].bytes > free_bytes / 4 / WINDOW)
			continue;
		say("pair", sizes[i].name, measure(sizes[i].bytes, 1, false));
		say("window", sizes[i].name, measure(sizes[i].bytes, WINDOW, false));
		say("used", sizes[i].name, measure(sizes[i].bytes, WINDOW, true));
	}
	printf(" }\n");
	return 0;
}
