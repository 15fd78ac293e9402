/* cuda_fork_locks.c DOOR FORKS -- three threads go through a door of the pool as fast as they can,
 * while main stops one of them inside the library and forks, FORKS times. Each child calls what
 * leads to the lock behind that door, which the driver refuses there, allocates on the heap, and
 * starts a thread of its own. If its call came to a lock that it has inherited as held, it would
 * hang: its alarm then kills it. Which lock is behind which door:
 *   blocks     blocks: the table of the pool
 *   kinds      unpooled: the table of memory that is no block of the pool's
 *   captures   gate: a thread is inside, for which the begin of a capture waits
 *   releases   the count of releases of a primary context under way, for which the last one waits
 *   first      gpu_start: another way round, a fork in each of FORKS processes while their first
 *     calls are under way
 * Prints how many children came back well. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_client.h"
#include "stopped_thread.h"

#define THREADS 3
#define HELD    8
#define NOBODYS 0x1000u /* no address of the driver */

static void *primary;
static atomic_bool over;
static _Atomic unsigned passages; /* that the driver did not refuse */

static void note(int result)
{
	if (result == 0)
		passages++;
}

/* ---- the doors, and what a child calls ---- */

static void pass_blocks(unsigned seed)
{
	uint64_t blocks[HELD] = {0};

	for (unsigned i = 0; i < HELD; i++)
		note(cu.cuMemAlloc_v2(&blocks[i], 512u << (seed + i) % 13));
	for (unsigned i = 0; i < HELD; i++)
		if (blocks[i])
			(void)cu.cuMemFree_v2(blocks[i]);
}

static void call_blocks(void)
{
	(void)cu.cuMemFree_v2(NOBODYS);
}

static void pass_frees(unsigned seed)
{
	for (unsigned i = 0; i < HELD; i++)
		(void)cu.cuMemFree_v2(NOBODYS + 512u * ((seed + i) % 64));
	passages++;
}

static void pass_kinds(unsigned seed)
{
	for (unsigned i = 0; i < HELD; i++)
		(void)cu.cuMemFreeHost((void *)(uintptr_t)(NOBODYS + 512u * ((seed + i) % 64)));
	passages++;
}

static void call_kinds(void)
{
	(void)cu.cuMemFreeHost((void *)(uintptr_t)NOBODYS);
}

static void call_captures(void)
{
	void *graph = NULL;

	(void)cu.cuStreamBeginCapture_v2(NULL, 2);
	(void)cu.cuStreamEndCapture(NULL, &graph);
}

static void pass_releases(unsigned seed)
{
	void *context;

	(void)seed;
	note(cu.cuDevicePrimaryCtxRetain(&context, 0));
	(void)cu.cuDevicePrimaryCtxRelease_v2(0);
}

/* The last that the child counts is one of these. */
static void call_releases(void)
{
	for (unsigned i = 0; i < THREADS + 2; i++)
		(void)cu.cuDevicePrimaryCtxRelease_v2(0);
}

static const struct door {
	const char *name;
	const char *library; /* in which the thread is stopped */
	void (*pass)(unsigned seed);
	void (*call)(void);
} doors[] = {
	{"blocks", "libmtshim", pass_frees, call_blocks},
	{"kinds", "libmtshim", pass_kinds, call_kinds},
	{"captures", "libcuda", pass_blocks, call_captures},
	{"releases", "libcuda", pass_releases, call_releases},
	{"first", "libmtshim", pass_blocks, call_blocks},
};
static const struct door *door;

/* ---- the forks ---- */

static void *go_through(void *number)
{
	(void)cu.cuCtxSetCurrent(primary);
	for (unsigned i = (unsigned)(uintptr_t)number; !atomic_load(&over); i += THREADS)
		door->pass(i);
	return NULL;
}

static void *live_once(void *unused)
{
	free(malloc(30000));
	return unused;
}

static void be_a_child(void)
{
	pthread_t thread;

	alarm(10);
	door->call();
	free(malloc(300000));
	if (pthread_create(&thread, NULL, live_once, NULL) != 0)
		_exit(11);
	pthread_join(thread, NULL);
	door->call();
	_exit(0);
}

static bool comes_back(void (*live)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		live();
	go_on();
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
		pass_blocks(0);
	atomic_store(&over, true);
	return unused;
}

static void be_a_process(void)
{
	pthread_t thread;
	bool well = true;

	if (pthread_create(&thread, NULL, begin_and_allocate, NULL) != 0)
		_exit(12);
	do {
		stop_inside(thread);
		well = comes_back(be_a_child) && well;
	} while (!atomic_load(&over));
	pthread_join(thread, NULL);
	_exit(well && passages > 0 ? 0 : 1);
}

int main(int argc, char **argv)
{
	unsigned forks = argc > 2 ? (unsigned)atoi(argv[2]) : 0, well = 0;
	bool is_first = argc > 1 && strcmp(argv[1], "first") == 0;
	pthread_t threads[THREADS];

	for (unsigned i = 0; argc > 1 && i < sizeof(doors) / sizeof(doors[0]); i++)
		if (strcmp(argv[1], doors[i].name) == 0)
			door = &doors[i];
	if (!door || cuda_client_start("local") != 0 || (!is_first && !begin()) ||
	    !stop_prepare(door->library))
		return 2;
	for (uintptr_t i = 0; !is_first && i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, go_through, (void *)i) != 0)
			return 2;
	for (unsigned i = 0; i < forks; i++) {
		if (!is_first)
			stop_inside(threads[i % THREADS]);
		well += comes_back(is_first ? be_a_process : be_a_child);
	}
	printf("%u of %u children\n", well, forks);
	atomic_store(&over, true);
	for (unsigned i = 0; !is_first && i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return is_first || passages > 0 ? 0 : 3;
}
