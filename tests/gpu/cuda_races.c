/* cuda_races.c -- races between a program's work on a device and the reuse of the memory that it
 * has freed. Usage: cuda_races RACE [ROAD]. Exit 0: all contents intact. 4: somebody wrote into a
 * block that was no longer his. Prints how many freed blocks came back.
 *
 * Every race has the same shape: work that writes OLD into a block A is enqueued behind a host
 * function that waits; A is freed; a block of the same size is allocated, perhaps A again, and NEW
 * is written into it, in no order with the enqueued work; then the host function is let go. Nothing
 * but NEW may be found. A driver whose free waits for the device waits for HOLD_MS. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "cuda_client.h"

#define HOLD_MS      60
#define ROUNDS_COUNT 6
#define OLD          0x11
#define NEW          0x22
#define MOST_BYTES   ((size_t)1 << 20)

static unsigned char page[MOST_BYTES];
static _Atomic bool is_released, is_enqueued;
static void *context;
static void *stream; /* non-blocking */

static void wait_for_release(void *unused)
{
	(void)unused;
	for (int i = 0; i < HOLD_MS * 4 && !atomic_load(&is_released); i++)
		nanosleep(&(struct timespec){.tv_nsec = 250000}, NULL);
}

static void start(void)
{
	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuStreamCreate(&stream, 1));
}

/* ---- the work that still runs when its block is freed ---- */

static void *executable, *graph;

static void on_stream(uint64_t block, size_t bytes)
{
	OK(cu.cuLaunchHostFunc(stream, wait_for_release, NULL));
	OK(cu.cuMemsetD8Async(block, OLD, bytes, stream));
}

struct work {
	uint64_t block;
	size_t bytes;
};

static void *on_own_default_stream(void *argument)
{
	const struct work *work = argument;

	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuLaunchHostFunc_ptsz(NULL, wait_for_release, NULL));
	OK(cu.cuMemsetD8Async_ptsz(work->block, OLD, work->bytes, NULL));
	atomic_store(&is_enqueued, true);
	while (!atomic_load(&is_released))
		usleep(500);
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	return NULL;
}

static pthread_t other;

static void on_per_thread_stream(uint64_t block, size_t bytes)
{
	static struct work work;

	work = (struct work){block, bytes};
	atomic_store(&is_enqueued, false);
	pthread_create(&other, NULL, on_own_default_stream, &work);
	while (!atomic_load(&is_enqueued))
		usleep(100);
}

static void by_graph(uint64_t block, size_t bytes)
{
	OK(cu.cuStreamBeginCapture_v2(stream, 1));
	OK(cu.cuLaunchHostFunc(stream, wait_for_release, NULL));
	OK(cu.cuMemsetD8Async(block, OLD, bytes, stream));
	OK(cu.cuStreamEndCapture(stream, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
	OK(cu.cuGraphLaunch(executable, stream));
}

static void drop_graph(void)
{
	OK(cu.cuGraphExecDestroy(executable));
	OK(cu.cuGraphDestroy(graph));
}

static void join_other(void)
{
	pthread_join(other, NULL);
}

/* ---- the race ---- */

static const struct race {
	const char *name;
	void (*launch)(uint64_t block, size_t bytes);
	void (*end)(void);
	bool is_per_thread;
} races[] = {
	{"stream", on_stream, NULL, false},
	{"per_thread", on_per_thread_stream, join_other, true},
	{"graph", by_graph, drop_graph, false},
};

static void write_new(const struct race *race, uint64_t block, size_t bytes)
{
	memset(page, NEW, bytes);
	if (race->is_per_thread)
		OK(cu.cuMemcpyHtoD_v2_ptds(block, page, bytes));
	else
		OK(cu.cuMemcpyHtoD_v2(block, page, bytes));
}

static size_t count_old(uint64_t block, size_t bytes)
{
	size_t count = 0;

	memset(page, 0, bytes);
	OK(cu.cuMemcpyDtoH_v2(page, block, bytes));
	for (size_t i = 0; i < bytes; i++)
		count += page[i] != NEW;
	return count;
}

/* Lets the work go and waits until all of it is done. */
static void finish(const struct race *race)
{
	atomic_store(&is_released, true);
	OK(cu.cuCtxSynchronize());
	if (race->end != NULL)
		race->end();
}

/* One round; whether stale data was found. *came_back counts blocks that were handed out again once
 * all was done. */
static bool run_round(const struct race *race, size_t bytes, unsigned *came_back)
{
	uint64_t first, second, third;

	atomic_store(&is_released, false);
	OK(cu.cuMemAlloc_v2(&first, bytes));
	race->launch(first, bytes);
	OK(cu.cuMemFree_v2(first));
	OK(cu.cuMemAlloc_v2(&second, bytes));
	write_new(race, second, bytes);
	finish(race);
	size_t old = count_old(second, bytes);
	OK(cu.cuMemFree_v2(second));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemAlloc_v2(&third, bytes));
	*came_back += third == first || third == second;
	OK(cu.cuMemFree_v2(third));
	if (old != 0)
		printf("stale: %zu of %zu bytes\n", old, bytes);
	return old != 0;
}

static int run_race(const struct race *race)
{
	static const size_t sizes[] = {512, 64 << 10, MOST_BYTES};
	unsigned came_back = 0, stale = 0;

	start();
	for (unsigned i = 0; i < ROUNDS_COUNT; i++)
		stale += run_round(race, sizes[i % 3], &came_back);
	printf("stale rounds: %u, blocks that came back: %u\n", stale, came_back);
	return stale != 0 ? 4 : 0;
}

/* ---- captures against frees ---- */

#define STORM_THREADS  3
#define CAPTURES_COUNT 200
static _Atomic bool is_over;
static _Atomic unsigned long storm_count;

static void *storm(void *argument)
{
	size_t bytes = (size_t)16384 << (2 * (uintptr_t)argument);
	uint64_t blocks[4];

	OK(cu.cuCtxSetCurrent(context));
	while (!atomic_load(&is_over)) {
		for (int i = 0; i < 4; i++)
			OK(cu.cuMemAlloc_v2(&blocks[i], bytes));
		for (int i = 0; i < 4; i++)
			OK(cu.cuMemFree_v2(blocks[i]));
		atomic_fetch_add(&storm_count, 4);
	}
	return NULL;
}

/* Captures in the modes in which other threads may allocate, one after another; every one must end
 * well. */
static int run_captures(void)
{
	pthread_t threads[STORM_THREADS];
	unsigned lost = 0;
	uint64_t block;

	start();
	OK(cu.cuMemAlloc_v2(&block, 4096));
	for (uintptr_t i = 0; i < STORM_THREADS; i++)
		pthread_create(&threads[i], NULL, storm, (void *)i);
	for (int i = 0; i < CAPTURES_COUNT; i++) {
		OK(cu.cuStreamBeginCapture_v2(stream, 1 + i % 2));
		int recorded = cu.cuMemsetD8Async(block, NEW, 4096, stream);
		usleep(i % 7 * 50);
		graph = NULL;
		int ended = cu.cuStreamEndCapture(stream, &graph);
		lost += recorded != 0 || ended != 0 || graph == NULL;
		if (graph != NULL)
			OK(cu.cuGraphDestroy(graph));
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("lost captures: %u, storm %s\n", lost,
	       atomic_load(&storm_count) > 1000 ? "blew" : "was calm");
	OK(cu.cuMemFree_v2(block));
	return lost != 0 ? 4 : 0;
}

/* ---- a capture that begins beside a decay ---- */

static void wait_for_capture(void *unused)
{
	(void)unused;
	while (!atomic_load(&is_released))
		usleep(500);
}

/* Work waits for what the program does after its capture. A block decays meanwhile, on a driver
 * whose cuMemFree waits for that work: neither the decay nor the capture may wait for it, and the
 * capture must not be broken by it. */
static int run_decay(void)
{
	uint64_t (*count_calls)(const char *name);
	void *other_stream;
	uint64_t blocks[2];

	start();
	*(void **)&count_calls =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fakecuda_calls");
	OK(cu.cuStreamCreate(&other_stream, 1));
	for (int i = 0; i < 2; i++)
		OK(cu.cuMemAlloc_v2(&blocks[i], MOST_BYTES));
	for (int i = 0; i < 2; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
	/* With the one that is taken the other one is known to be ready. */
	OK(cu.cuMemAlloc_v2(&blocks[0], MOST_BYTES));
	OK(cu.cuLaunchHostFunc(stream, wait_for_capture, NULL));
	for (int i = 0; i < 10000 && count_calls("cuMemFreeAsync") == 0; i++)
		usleep(500);
	printf("decay %s\n", count_calls("cuMemFreeAsync") == 0 ? "did not come" : "came");
	fflush(stdout);
	OK(cu.cuStreamBeginCapture_v2(other_stream, 0));
	OK(cu.cuStreamEndCapture(other_stream, &graph));
	atomic_store(&is_released, true);
	OK(cu.cuCtxSynchronize());
	printf("captured\n");
	OK(cu.cuGraphDestroy(graph));
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (cuda_client_start(argc > 2 ? argv[2] : "local") != 0)
		return 3;
	if (strcmp(name, "captures") == 0)
		return run_captures();
	if (strcmp(name, "decay") == 0)
		return run_decay();
	for (size_t i = 0; i < sizeof(races) / sizeof(races[0]); i++)
		if (strcmp(name, races[i].name) == 0)
			return run_race(&races[i]);
	return 2;
}
