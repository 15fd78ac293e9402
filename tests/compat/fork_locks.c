/* fork_locks.c DOOR FORKS -- three threads go through a door of the shim as fast as they can, while
 * main stops one of them inside the library and forks, FORKS times; each child goes through the
 * same door, allocates, and starts a thread of its own. A lock that it
 * inherits as held makes it hang: its limit_report then kills it. Which lock is behind which door:
 *   heap      jemalloc's own, or libc's
 *   stats     publish (mt_stats fills in under it)
 *   trim      actions, purge (each arena), publish, account
 *   births    account: threads that are born and die, with mt_stats
 *   profile   the gate before the heap profiler's walks (for MT_PROF=on)
 *   environ   getenv, dlsym and dlopen: the loader's own, which libc makes again in the child
 * Prints how many children came back well. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtshim.h"
#include "stopped_thread.h"

static int (*figures)(struct mt_stats *);
static int64_t (*trim)(int);
static atomic_bool over;

static void churn(unsigned seed)
{
	char *blocks[16];

	for (unsigned i = 0; i < 16; i++) {
		blocks[i] = malloc(1 + (seed * 7919 + i * 104729) % (i ? 6000 : 300000));
		if (!blocks[i])
			abort();
		blocks[i][0] = 1;
	}
	for (unsigned i = 0; i < 16; i++)
		free(blocks[i]);
}

static void *live_once(void *seed)
{
	churn((unsigned)(uintptr_t)seed);
	return NULL;
}

static void one_thread(unsigned seed)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, live_once, (void *)(uintptr_t)seed) != 0)
		_exit(11);
	pthread_join(thread, NULL);
}

/* ---- the doors ---- */

static void through_stats(unsigned seed)
{
	struct mt_stats stats = {.size_bytes = sizeof(stats)};

	(void)seed;
	if (figures(&stats) != 0)
		_exit(12);
}

static void through_trim(unsigned seed)
{
	churn(seed);
	trim(0);
	if (seed % 4 == 0)
		malloc_trim(0);
}

static void through_births(unsigned seed)
{
	one_thread(seed);
	through_stats(seed);
}

static void through_environ(unsigned seed)
{
	void *handle = dlopen(NULL, RTLD_NOW);

	if (!handle || !dlsym(handle, "malloc") || dlsym(handle, "no_such_name") ||
	    (getenv("PYTHONMALLOC") && seed == 1))
		_exit(14);
	dlclose(handle);
}

static void (*door)(unsigned);

static void *go_through(void *number)
{
	for (unsigned i = (unsigned)(uintptr_t)number; !atomic_load(&over); i += 3)
		door(i);
	return NULL;
}

static void be_a_child(unsigned number)
{
	alarm(10);
	door(number);
	churn(number);
	one_thread(number);
	door(number + 1);
	_exit(0);
}

static unsigned fork_all(unsigned forks, const pthread_t *threads)
{
	unsigned well = 0;

	for (unsigned i = 0; i < forks; i++) {
		int status = -1;
		pid_t child;

		stop_inside(threads[i % 3]);
		child = fork();
		if (child == 0)
			be_a_child(i);
		go_on();
		while (child > 0 && waitpid(child, &status, 0) < 0)
			;
		well += status == 0;
	}
	return well;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*go)(unsigned);
	} doors[] = {
		{"heap", churn},        {"stats", through_stats},
		{"trim", through_trim}, {"births", through_births},
		{"profile", churn},     {"environ", through_environ},
	};
	unsigned forks = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	pthread_t threads[3];

	*(void **)&figures = dlsym(RTLD_DEFAULT, "mt_stats");
	*(void **)&trim = dlsym(RTLD_DEFAULT, "mt_trim");
	for (unsigned i = 0; argc > 1 && i < sizeof(doors) / sizeof(doors[0]); i++)
		if (strcmp(argv[1], doors[i].name) == 0)
			door = doors[i].go;
	stop_skips_calls = door == through_stats;
	if (!door || !figures || !trim || !stop_prepare("libmtshim"))
		return 2;
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, go_through, (void *)i) != 0)
			return 2;
	printf("%u of %u children\n", fork_all(forks, threads), forks);
	atomic_store(&over, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
