/* pairs.c -- what allocation and free cost, by size and in random mixes; one JSON object.
 *   pairs WAY [MS]                  by size, at most so many ms for each figure (100)
 *   pairs WAY mix LOW HIGH COUNT    a random mix of sizes; with HOLD=1 in the environment it waits
 *     for the end of stdin, so that
 *                                   the caller can look at the process
 *   pairs event                     what the pool cannot do without: recording an event and asking
 *     for it
 * WAY is `sync`, cuMemAlloc and cuMemFree: the driver's, or the pool's where the shim is loaded; or
 * `async`, cuMemAllocAsync and cuMemFreeAsync, the default pool keeping everything. By size a
 * block is allocated and freed again: idle or behind a kernel of 2 ms in the same stream, in 1
 * and in 16 threads. */
#include "gpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	THREADS = 16,
	KERNEL_MS = 2,
	MOST = 20000,
	LEAST = 5,
	RELEASE_THRESHOLD = 4,
	MOST_LIVE = 4096,
	LOOK_EVERY = 32,
	MOVES_EVERY = 500
};

static bool is_async;
static struct CUstream_st *stream;
static double samples[MOST];
static double frees[MOST];
static uint64_t for_ms = 100;
static _Atomic unsigned long retries;

static void make_room(struct CUstream_st *in)
{
	struct CUmemPoolHandle_st *pool;

	retries++;
	gpu_ok(cu.cuStreamSynchronize(in));
	gpu_ok(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	gpu_ok(cu.cuMemPoolTrimTo(pool, 0));
}

static uint64_t take_on(size_t bytes, struct CUstream_st *in)
{
	uint64_t block;

	/* A pool of the driver's may be full of what waits for its kernels; a program would give
	 * up. */
	if (is_async && cu.cuMemAllocAsync(&block, bytes, in) == MT_CU_SUCCESS)
		return block;
	if (is_async)
		make_room(in);
	gpu_ok(is_async ? cu.cuMemAllocAsync(&block, bytes, in) : cu.cuMemAlloc_v2(&block, bytes));
	return block;
}

static void give_on(uint64_t block, struct CUstream_st *in)
{
	gpu_ok(is_async ? cu.cuMemFreeAsync(block, in) : cu.cuMemFree_v2(block));
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

/* One thread of a measurement: its own stream, its own slice of the samples. */
struct lane {
	pthread_t id;
	struct CUctx_st *context;
	pthread_barrier_t *start;
	size_t bytes;
	bool is_busy;
	size_t most;
	double *allocs;
	double *frees;
	size_t count;
};

static void *measure_lane(void *argument)
{
	struct lane *lane = argument;
	struct CUstream_st *own;
	uint64_t first;

	gpu_ok(cu.cuCtxSetCurrent(lane->context));
	own = gpu_stream(GPU_STREAM_NON_BLOCKING);
	give_on(take_on(lane->bytes, own), own); /* a pool begins empty */
	gpu_ok(cu.cuStreamSynchronize(own));
	pthread_barrier_wait(lane->start);
	first = gpu_now_ns();
	while (lane->count < lane->most &&
	       (lane->count < LEAST || gpu_now_ns() - first < for_ms * 1000000)) {
		uint64_t block;
		uint64_t begin;
		uint64_t middle;

		if (lane->is_busy)
			gpu_spin(own, KERNEL_MS);
		begin = gpu_now_ns();
		block = take_on(lane->bytes, own);
		middle = gpu_now_ns();
		lane->allocs[lane->count] = (double)(middle - begin);
		begin = gpu_now_ns();
		give_on(block, own);
		lane->frees[lane->count++] = (double)(gpu_now_ns() - begin);
		if (lane->is_busy)
			gpu_ok(cu.cuStreamSynchronize(own));
	}
	gpu_ok(cu.cuStreamDestroy_v2(own));
	return NULL;
}

/* The samples of all lanes next to each other, in samples and in frees. */
static size_t gather(const struct lane *lanes, size_t threads)
{
	size_t count = 0;

	for (size_t i = 0; i < threads; i++) {
		memmove(samples + count, lanes[i].allocs, lanes[i].count * sizeof *samples);
		memmove(frees + count, lanes[i].frees, lanes[i].count * sizeof *frees);
		count += lanes[i].count;
	}
	return count;
}

static size_t measure(size_t bytes, size_t threads, bool is_busy)
{
	struct lane lanes[THREADS] = {0};
	pthread_barrier_t start;
	struct CUctx_st *context;

	gpu_ok(cu.cuCtxGetCurrent(&context));
	pthread_barrier_init(&start, NULL, (unsigned int)threads);
	for (size_t i = 0; i < threads; i++) {
		const size_t most = MOST / threads;

		lanes[i] = (struct lane){.context = context,
					 .start = &start,
					 .bytes = bytes,
					 .is_busy = is_busy,
					 .most = most,
					 .allocs = samples + i * most,
					 .frees = frees + i * most};
		gpu_expect(pthread_create(&lanes[i].id, NULL, measure_lane, &lanes[i]) == 0,
			   "no thread");
	}
	for (size_t i = 0; i < threads; i++)
		pthread_join(lanes[i].id, NULL);
	pthread_barrier_destroy(&start);
	return gather(lanes, threads);
}

static void say(const char *what, double *values, size_t count)
{
	static int said;

	printf("%s\"%s_ns\": %.0f", said++ ? ", " : "{", what, gpu_quantile(values, count, 0.5));
	printf(", \"%s_p95_ns\": %.0f", what, gpu_quantile(values, count, 0.95));
}

static void by_size(void)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = {{512, "512B"},         {4096, "4KiB"},       {65536, "64KiB"},
		     {1 << 20, "1MiB"},     {2 << 20, "2MiB"},    {16 << 20, "16MiB"},
		     {128 << 20, "128MiB"}, {1ull << 30, "1GiB"}, {8ull << 30, "8GiB"}};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		for (size_t shape = 0; shape < 4; shape++) {
			const size_t threads = shape < 2 ? 1 : THREADS;
			const bool is_busy = shape % 2;
			char what[64];
			size_t count;

			/* Twice the room: freed blocks may wait for their kernels. */
			if (free_now() / 2 / sizes[i].bytes < threads)
				continue;
			count = measure(sizes[i].bytes, threads, is_busy);
			snprintf(what, sizeof what, "%s_%zu_alloc_%s", is_busy ? "busy" : "idle",
				 threads, sizes[i].name);
			say(what, samples, count);
			snprintf(what, sizeof what, "%s_%zu_free_%s", is_busy ? "busy" : "idle",
				 threads, sizes[i].name);
			say(what, frees, count);
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
	say("event", samples, MOST);
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
	give_on(block, stream);
	return (double)(gpu_now_ns() - begin);
}

static double take_one(size_t bytes)
{
	const uint64_t begin = gpu_now_ns();
	const uint64_t block = take_on(bytes, stream);
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
	say("take", samples, count);
	say("free", frees, freed);
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
