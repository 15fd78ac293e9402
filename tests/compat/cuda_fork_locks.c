/* cuda_fork_locks.c DOOR FORKS -- three threads go through a door of the pool as fast as they can,
 * so that one or another holds the lock behind it much of the time, while main forks FORKS times;
 * each child goes through the same door, whose driver refuses it, allocates on the heap, and starts
 * a thread of its own. A lock that it inherits as held makes it hang: its limit_report then kills
 * it. Which lock is behind which door:
 *   blocks     context, shard, slab, piece: blocks of the pool, freed while work on them runs
 *   kinds      device: memory that is no block of the pool's
 *   contexts   slots, pending list: contexts that are made and destroyed
 *   captures   gate, captures
 *   failures   oom: allocations that no device has room for
 *   first      gpu_start: another way round, a fork in each of FORKS processes while their first
 *     calls are under way
 * Prints how many children came back well. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_client.h"

#define THREADS 3
#define HELD    8

static void *primary;
static atomic_bool over;
static _Atomic unsigned passages; /* that the driver did not refuse */

static void note(int result)
{
	if (result == 0)
		passages++;
}

/* ---- the doors ---- */

static void through_blocks(unsigned seed)
{
	uint64_t blocks[HELD] = {0};

	for (unsigned i = 0; i < HELD; i++) {
		note(cu.cuMemAlloc_v2(&blocks[i], 512u << (seed + i) % 13));
		(void)cu.cuMemsetD8Async(blocks[i], 1, 512, NULL);
	}
	for (unsigned i = 0; i < HELD; i++)
		if (blocks[i])
			(void)cu.cuMemFree_v2(blocks[i]);
}

static void through_kinds(unsigned seed)
{
	const struct cuda_array shape = {64, 64, 0x20, 1};
	uint64_t managed = 0;
	void *host = NULL, *array = NULL;

	note(cu.cuMemAllocManaged(&managed, 4096u << seed % 4, 1));
	(void)cu.cuMemHostAlloc(&host, 4096, 0);
	(void)cu.cuArrayCreate_v2(&array, &shape);
	if (managed)
		(void)cu.cuMemFree_v2(managed);
	if (host)
		(void)cu.cuMemFreeHost(host);
	if (array)
		(void)cu.cuArrayDestroy(array);
}

static void through_contexts(unsigned seed)
{
	void *context = NULL, *popped;

	if (cu.cuCtxCreate_v2(&context, 0, 0) != 0)
		return;
	through_blocks(seed);
	(void)cu.cuCtxDestroy_v2(context);
	(void)cu.cuCtxPopCurrent_v2(&popped);
	(void)cu.cuCtxSetCurrent(primary);
}

static void through_captures(unsigned seed)
{
	void *stream = NULL, *graph = NULL;

	if (cu.cuStreamCreate(&stream, 1) != 0)
		return;
	note(cu.cuStreamBeginCapture_v2(stream, 2));
	through_blocks(seed);
	(void)cu.cuStreamEndCapture(stream, &graph);
	if (graph)
		(void)cu.cuGraphDestroy(graph);
	through_blocks(seed + 1);
	(void)cu.cuStreamDestroy_v2(stream);
}

static void through_failures(unsigned seed)
{
	uint64_t block = 0;

	note(cu.cuMemAlloc_v2(&block, (size_t)1 << 45) == 2 ? 0 : 1);
	through_blocks(seed);
}

/* ---- the forks ---- */

static void (*door)(unsigned);

static void *go_through(void *number)
{
	(void)cu.cuCtxSetCurrent(primary);
	for (unsigned i = (unsigned)(uintptr_t)number; !atomic_load(&over); i += THREADS)
		door(i);
	return NULL;
}

static void *live_once(void *unused)
{
	free(malloc(30000));
	return unused;
}

static void be_a_child(unsigned number)
{
	pthread_t thread;

	alarm(30);
	door(number);
	free(malloc(300000));
	if (pthread_create(&thread, NULL, live_once, NULL) != 0)
		_exit(11);
	pthread_join(thread, NULL);
	door(number + 1);
	_exit(0);
}

static bool comes_back(void (*live)(unsigned), unsigned number)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		live(number);
	while (child > 0 && waitpid(child, &status, 0) < 0)
		;
	return status == 0;
}

static bool begin(void)
{
	return cu.cuInit(0) == 0 && cu.cuDevicePrimaryCtxRetain(&primary, 0) == 0 &&
	       cu.cuCtxSetCurrent(primary) == 0;
}

static void *begin_and_allocate(void *unused)
{
	if (begin())
		through_blocks(0);
	atomic_store(&over, true);
	return unused;
}

static void be_a_process(unsigned number)
{
	pthread_t thread;
	bool well = true;

	if (pthread_create(&thread, NULL, begin_and_allocate, NULL) != 0)
		_exit(12);
	do
		well = comes_back(be_a_child, number) && well;
	while (!atomic_load(&over));
	pthread_join(thread, NULL);
	_exit(well && passages > 0 ? 0 : 1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*go)(unsigned);
	} doors[] = {
		{"blocks", through_blocks},     {"kinds", through_kinds},
		{"contexts", through_contexts}, {"captures", through_captures},
		{"failures", through_failures}, {"first", through_blocks},
	};
	unsigned forks = argc > 2 ? (unsigned)atoi(argv[2]) : 0, well = 0;
	bool is_first = argc > 1 && strcmp(argv[1], "first") == 0;
	pthread_t threads[THREADS];

	for (unsigned i = 0; argc > 1 && i < sizeof(doors) / sizeof(doors[0]); i++)
		if (strcmp(argv[1], doors[i].name) == 0)
			door = doors[i].go;
	if (!door || cuda_client_start("local") != 0 || (!is_first && !begin()))
		return 2;
	for (uintptr_t i = 0; !is_first && i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, go_through, (void *)i) != 0)
			return 2;
	for (unsigned i = 0; i < forks; i++)
		well += comes_back(is_first ? be_a_process : be_a_child, i);
	printf("%u of %u children\n", well, forks);
	atomic_store(&over, true);
	for (unsigned i = 0; !is_first && i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return is_first || passages > 0 ? 0 : 3;
}
