/* fork_locks.c DOOR FORKS -- three threads go through a door of the shim as fast as they can, so
 * that one or another holds the lock behind it most of the time, while main forks FORKS times; each
 * child goes through the same door, allocates, and starts a thread of its own. A lock that it
 * inherits as held makes it hang: its limit_report then kills it. Which lock is behind which door:
 *   heap      jemalloc's own, or libc's
 *   stats     publish (mt_stats fills in under it)
 *   trim      actions, purge (each arena), publish, account
 *   births    account: threads that are born and die, with mt_stats
 *   signals   the view of the cleanup signal (sigaction), and the control file
 *   rounds    the control file, rounds, publish
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

static int (*figures)(struct mt_stats *);
static int64_t (*trim)(int);
static uint64_t (*round_end)(void);
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

static void nothing(int sig)
{
	(void)sig;
}

/* SIG_IGN, not SIG_DFL: who puts that and sends himself the signal, as another thread here may do
 * just then, means to die. */
static void through_signals(unsigned seed)
{
	const struct sigaction act = {.sa_handler = seed % 3 ? nothing : SIG_IGN,
				      .sa_flags = seed % 2 ? SA_RESTART : 0};
	struct sigaction old;

	if (sigaction(SIGUSR1, &act, &old) != 0)
		_exit(13);
	if (act.sa_handler == nothing)
		kill(getpid(), SIGUSR1);
}

static void through_rounds(unsigned seed)
{
	(void)seed;
	round_end();
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
	alarm(30);
	door(number);
	churn(number);
	one_thread(number);
	door(number + 1);
	_exit(0);
}

static unsigned fork_all(unsigned forks)
{
	unsigned well = 0;

	for (unsigned i = 0; i < forks; i++) {
		pid_t child = fork();
		int status = -1;

		if (child == 0)
			be_a_child(i);
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
		{"heap", churn},
		{"stats", through_stats},
		{"trim", through_trim},
		{"births", through_births},
		{"rounds", through_rounds},
		{"profile", churn},
		{"signals", through_signals},
		{"environ", through_environ},
	};
	unsigned forks = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	pthread_t threads[3];

	*(void **)&figures = dlsym(RTLD_DEFAULT, "mt_stats");
	*(void **)&trim = dlsym(RTLD_DEFAULT, "mt_trim");
	*(void **)&round_end = dlsym(RTLD_DEFAULT, "mt_round");
	for (unsigned i = 0; argc > 1 && i < sizeof(doors) / sizeof(doors[0]); i++)
		if (strcmp(argv[1], doors[i].name) == 0)
			door = doors[i].go;
	if (!door || !figures || !trim || !round_end)
		return 2;
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, go_through, (void *)i) != 0)
			return 2;
	printf("%u of %u children\n", fork_all(forks), forks);
	atomic_store(&over, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
