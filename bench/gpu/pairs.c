/* pairs.c -- what allocation and free cost, by size and in random mixes; one JSON object.
 *   pairs WAY [MS]                  by size, at most so many ms for each figure (100)
 *   pairs WAY mix LOW HIGH COUNT    a random mix of sizes; with HOLD=1 in the environment it waits
 *     for the end of stdin, so that
 *                                   the caller can look at the process
 *   pairs event                     what the pool cannot do without: recording an event and asking
 *     for it
 * WAY is `sync`, cuMemAlloc and cuMemFree: the driver's, or the pool's where the shim is loaded; or
 * `async`, cuMemAllocAsync and cuMemFreeAsync, the default pool keeping everything. Three shapes by
 * size: `pair` frees at once; `window` keeps 16 live; `used` launches a kernel on the block before
 * each free. */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WINDOW = 16,
	MOST = 20000,
	LEAST = 20,
	RELEASE_THRESHOLD = 4,
	MOST_LIVE = 4096,
	LOOK_EVERY = 32,
	MOVES_EVERY = 500
};

static bool is_async;
static struct CUstream_st *stream;
static double samples[MOST];
static uint64_t for_ms = 100;
static unsigned long retries;

static void make_room(void)
{
	struct CUmemPoolHandle_st *pool;

	retries++;
	gpu_ok(cu.cuStreamSynchronize(stream));
	gpu_ok(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	gpu_ok(cu.cuMemPoolTrimTo(pool, 0));
}

static uint64_t take(size_t bytes)
{
	uint64_t block;

	/* A pool of the driver's may be full of what waits for its kernels; a program would give
	 * up. */
	if (is_async && cu.cuMemAllocAsync(&block, bytes, stream) == MT_CU_SUCCESS)
		return block;
	if (is_async)
		make_room();
	gpu_ok(is_async ? cu.cuMemAllocAsync(&block, bytes, stream)
			: cu.cuMemAlloc_v2(&block, bytes));
	return block;
}

static void give(uint64_t block)
{
	gpu_ok(is_async ? cu.cuMemFreeAsync(block, stream) : cu.cuMemFree_v2(block));
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

static size_t free_now(void)
{
	size_t free_bytes;
	size_t total_bytes;

	/* What a pool keeps counts as free here. */
	gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	return free_bytes;
}

/* ---- by size ---- */

/* Blocks in turn through a window: each step frees the oldest and takes a new one. The kernel's
 * launch is not counted. */
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

static void say(const char *what, size_t count)
{
	static int said;

	printf("%s\"%s_ns\": %.0f", said++ ? ", " : "{", what, gpu_quantile(samples, count, 0.5));
	printf(", \"%s_p95_ns\": %.0f", what, gpu_quantile(samples, count, 0.95));
}

static void by_size(void)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = {{512, "512B"},        {4096, "4KiB"},      {65536, "64KiB"},
		     {1 << 20, "1MiB"},    {2 << 20, "2MiB"},   {16 << 20, "16MiB"},
		     {20 << 20, "20MiB"},  {64 << 20, "64MiB"}, {256 << 20, "256MiB"},
		     {1ull << 30, "1GiB"}, {4ull << 30, "4GiB"}};

	static const char *const shapes[] = {"pair", "window", "used"};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		for (size_t shape = 0; shape < 3; shape++) {
			/* Four times the room: freed blocks may wait for their kernels. */
			size_t fits = free_now() / 4 / sizes[i].bytes;
			size_t window = shape == 0 ? 1 : WINDOW;
			char what[64];

			if (fits < window)
				continue;
			snprintf(what, sizeof what, "%s_%s", shapes[shape], sizes[i].name);
			say(what, measure(sizes[i].bytes, window, shape == 2));
		}
	}
	printf("}\n");
}

static void event(void)
{
	struct CUevent_st *one = gpu_event();
	struct CUctx_st *context;

	if (!gpu_has(cuCtxRecordEvent))
		gpu_skip("no cuCtxRecordEvent in this driver");
	gpu_ok(cu.cuCtxGetCurrent(&context));
	for (size_t i = 0; i < MOST; i++) {
		uint64_t begin = gpu_now_ns();

		gpu_ok(cu.cuCtxRecordEvent(context, one));
		(void)cu.cuEventQuery(one);
		samples[i] = (double)(gpu_now_ns() - begin);
	}
	say("event", MOST);
	printf("}\n");
}

/* ---- a random mix ---- Sizes are log-uniform, each free takes a random one of the live blocks.
 * What may be live changes between all and two fifths of the bound, as from batch to batch: a cache
 * has to find a use for what it holds. bench/gpu/pools.py does the same with the same numbers. */

static struct {
	uint64_t at[MOST_LIVE];
	size_t bytes[MOST_LIVE];
	size_t count, live_bytes, peak_live_bytes;
	uint64_t free_at_start, peak_held_bytes;
	double held_sum, live_sum;
	uint64_t random;
} mix = {.random = 88172645463325252ull};

static uint64_t random_number(void)
{
	mix.random ^= mix.random << 13;
	mix.random ^= mix.random >> 7;
	mix.random ^= mix.random << 17;
	return mix.random;
}

static size_t random_size(double low, double high)
{
	const double uniform = (double)(random_number() >> 11) / 9007199254740992.0;

	return ((size_t)(low * pow(high / low, uniform)) + 511) / 512 * 512;
}

static double free_one(size_t which)
{
	const uint64_t block = mix.at[which];
	uint64_t begin;

	gpu_ok(gpu_fill(stream, block, 512, 1));
	mix.live_bytes -= mix.bytes[which];
	mix.count--;
	mix.at[which] = mix.at[mix.count];
	mix.bytes[which] = mix.bytes[mix.count];
	begin = gpu_now_ns();
	give(block);
	return (double)(gpu_now_ns() - begin);
}

static double take_one(size_t bytes)
{
	const uint64_t begin = gpu_now_ns();
	const uint64_t block = take(bytes);
	const uint64_t end = gpu_now_ns();

	mix.at[mix.count] = block;
	mix.bytes[mix.count++] = bytes;
	mix.live_bytes += bytes;
	if (mix.live_bytes > mix.peak_live_bytes)
		mix.peak_live_bytes = mix.live_bytes;
	return (double)(end - begin);
}

static void look(void)
{
	const uint64_t now = gpu_free_bytes();
	const uint64_t held = now < mix.free_at_start ? mix.free_at_start - now : 0;

	mix.peak_held_bytes = held > mix.peak_held_bytes ? held : mix.peak_held_bytes;
	mix.held_sum += (double)held;
	mix.live_sum += (double)mix.live_bytes;
}

static size_t at_most(size_t one, size_t other)
{
	return one < other ? one : other;
}

static void random_mix(size_t low, size_t high, size_t count)
{
	static double frees[MOST];
	const size_t bound =
		at_most(free_now() / 4, high < (64 << 20) ? 512 << 20 : (size_t)16 << 30);
	double total_ns = 0;
	size_t freed = 0;

	high = at_most(high, bound / 4);
	count = at_most(count, MOST);
	mix.free_at_start = gpu_free_bytes();
	for (size_t i = 0; i < count; i++) {
		const size_t bytes = random_size((double)low, (double)high);
		const size_t most = i / MOVES_EVERY % 2 ? bound * 2 / 5 : bound;

		while (mix.count && (mix.live_bytes + bytes > most || mix.count == MOST_LIVE)) {
			double ns = free_one(random_number() % mix.count);

			total_ns += ns;
			if (freed < MOST)
				frees[freed++] = ns;
		}
		samples[i] = take_one(bytes);
		total_ns += samples[i];
		if (i % LOOK_EVERY == LOOK_EVERY - 1)
			look();
	}
	say("take", count);
	memcpy(samples, frees, freed * sizeof *frees);
	say("free", freed);
	printf(", \"step_mean_ns\": %.0f, \"steps\": %zu", total_ns / (double)count, count);
	printf(", \"peak_held_mib\": %.1f, \"peak_live_mib\": %.1f",
	       (double)mix.peak_held_bytes / 1048576, (double)mix.peak_live_bytes / 1048576);
	printf(", \"held_over_live\": %.4f, \"retries\": %lu}\n",
	       mix.live_sum > 0 ? mix.held_sum / mix.live_sum : 0, retries);
}

static void hold(void)
{
	char bytes[64];

	fflush(stdout);
	while (getenv("HOLD") && read(STDIN_FILENO, bytes, sizeof bytes) > 0)
		;
}

int main(int argc, char **argv)
{
	const bool is_mix = argc == 6 && strcmp(argv[2], "mix") == 0;

	is_async = argc >= 2 && strcmp(argv[1], "async") == 0;
	if (argc < 2 || (argc > 3 && !is_mix) ||
	    (!is_async && strcmp(argv[1], "sync") != 0 && strcmp(argv[1], "event") != 0)) {
		fprintf(stderr, "pairs sync|async [MS], pairs sync|async mix LOW HIGH COUNT, pairs "
				"event\n");
		return 2;
	}
	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	if (is_async)
		keep_everything();
	if (argc == 3)
		for_ms = strtoull(argv[2], NULL, 10);
	if (strcmp(argv[1], "event") == 0)
		event();
	else if (is_mix)
		random_mix(strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
			   strtoull(argv[5], NULL, 10));
	else
		by_size();
	hold();
	return 0;
}
