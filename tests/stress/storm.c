/* storm.c SECONDS THREADS FORKERS -- everything that a process can do to a shim at once. Threads
 * come and go and hand each other blocks (blocks.h); others fork. A child finds the blocks that lie
 * in its parent's mailboxes unchanged. It goes on with threads of its own, forks again, execs this
 * program again, spawns another, trims, or ends at once, and is waited for. One thread sets, resets
 * and ignores the handler of the cleanup signal, which others send from outside. All processes of
 * the tree map one file and count in it (STORM_COUNTS, a descriptor). A line on stdout a second
 * says that the program is alive; the last one is "over". Ends with 1 if a byte was wrong or a
 * child did not end well. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mtshim.h"

#include "blocks.h"

/* a child that takes longer has hung: SIGALRM ends it, and it did not end well */
#define CHILD_S 60
#define INIT    4000

/* In the order of names_of_counts in storm.py. */
struct counts {
	_Atomic uint64_t forks, execs, spawns, threads, blocks, handled, trims, cleanups, wrong,
		bad_children;
};

extern char **environ;
static struct counts *counts;
static const char *own_path;
static int (*ask_stats)(struct mt_stats *);
static int64_t (*trim)(int);

/* ---- threads ---- */

static void *live(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15ull + 1;

	atomic_fetch_add(&counts->threads, 1);
	churn(&state, INIT);
	return NULL;
}

static void *keep_alive(void *number)
{
	pthread_t thread;

	for (uintptr_t init = 1; !atomic_load(&over); init++)
		if (pthread_create(&thread, NULL, live,
				   (void *)((uintptr_t)number * 1000003 + init)) == 0)
			pthread_join(thread, NULL);
	return NULL;
}

static void handle(int sig)
{
	int kept = errno;

	(void)sig;
	atomic_fetch_add(&counts->handled, 1);
	errno = kept;
}

static void *flip(void *unused)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	const struct sigaction own = {.sa_handler = handle, .sa_flags = SA_RESTART};

	for (unsigned i = 0; !atomic_load(&over); i++) {
		if (i % 3 == 0)
			sigaction(SIGUSR1, &own, NULL);
		else
			signal(SIGUSR1, i % 3 == 1 ? SIG_IGN : SIG_DFL);
		nanosleep(&pause, NULL);
	}
	signal(SIGUSR1, SIG_DFL);
	return unused;
}

/* ---- children ---- */

static void block_signal(sigset_t *before)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, before);
}

static _Noreturn void leave(int status)
{
	struct mt_stats now = {.size_bytes = sizeof(now)};

	if (ask_stats && ask_stats(&now) == 0)
		atomic_fetch_add(&counts->cleanups,
				 now.purge_count + now.light_count + now.heavy_count);
	if (status == 0 && getpid() % 2)
		exit(0);
	_exit(status);
}

static void wait_for(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0) {
		dprintf(STDERR_FILENO, "storm: child %d ended with %x\n", (int)child,
			(unsigned)status);
		atomic_fetch_add(&counts->bad_children, 1);
	}
}

/* The signal is blocked over exec: between exec and our constructor it would kill. */
static void spawn_one(uint64_t *state)
{
	char *leaf[] = {(char *)(uintptr_t)own_path, "leaf", NULL};
	char *other[] = {"true", NULL};
	bool is_leaf = next(state) % 4;
	const char *path = is_leaf ? own_path : "/bin/true";
	char **words = is_leaf ? leaf : other;
	sigset_t before;
	pid_t child = -1;

	block_signal(&before);
	atomic_fetch_add(&counts->spawns, 1);
	if (next(state) % 2) {
		if (posix_spawn(&child, path, NULL, NULL, words, environ) != 0)
			child = -1;
	} else {
		child = vfork();
		if (child == 0) {
			execve(path, words, environ);
			_exit(127);
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (child < 0)
		atomic_fetch_add(&counts->bad_children, 1);
	else
		wait_for(child);
}

static void fork_one(uint64_t *state, unsigned depth);

static void run_threads(uint64_t *state)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, live, (void *)(uintptr_t)next(state)) != 0)
			leave(11);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* What the parent's threads had laid down whole is whole here too. */
static _Noreturn void be_child(uint64_t *state, unsigned depth)
{
	char *words[] = {(char *)(uintptr_t)own_path, "leaf", NULL};

	alarm(CHILD_S);
	atomic_store(&over, false); /* the parent's end is not ours */
	for (unsigned i = 0; i < MAILBOXES; i++) {
		struct block *block = atomic_load(&mailbox[i]);

		if (block)
			check(block);
	}
	switch (next(state) % 8) {
	case 0:
		break;
	case 1:
		run_threads(state);
		break;
	case 2:
		if (depth < 2)
			fork_one(state, depth + 1);
		break;
	case 3:
		block_signal(NULL);
		atomic_fetch_add(&counts->execs, 1);
		execve(own_path, words, environ);
		leave(12);
	case 4:
		if (trim)
			(void)trim((int)(next(state) % 3));
		atomic_fetch_add(&counts->trims, 1);
		break;
	case 5:
		empty_mailboxes();
		break;
	default:
		churn(state, 500);
	}
	churn(state, 50);
	leave(0);
}

static void fork_one(uint64_t *state, unsigned depth)
{
	uint64_t seed = next(state);
	pid_t child = fork();

	if (child == 0)
		be_child(&seed, depth);
	if (child < 0) {
		atomic_fetch_add(&counts->bad_children, 1);
		return;
	}
	atomic_fetch_add(&counts->forks, 1);
	wait_for(child);
}

static void *keep_forking(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15ull + 7;

	while (!atomic_load(&over)) {
		fork_one(&state, 0);
		if (next(&state) % 8 == 0)
			spawn_one(&state);
		if (next(&state) % 16 == 0 && trim) {
			(void)trim((int)(next(&state) % 3));
			atomic_fetch_add(&counts->trims, 1);
		}
	}
	return NULL;
}

/* ---- the tree's root, and a process that begins with its exec ---- */

static void begin(void)
{
	const char *number = getenv("STORM_COUNTS");
	sigset_t usr1;

	*(void **)(void *)&ask_stats = dlsym(RTLD_DEFAULT, "mt_stats");
	*(void **)(void *)&trim = dlsym(RTLD_DEFAULT, "mt_trim");
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED,
		      number ? atoi(number) : -1, 0);
	if (counts == MAP_FAILED)
		exit(2);
	blocks.blocks = &counts->blocks;
	blocks.wrong = &counts->wrong;
	blocks.largest_bytes = 1 << 20;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

static _Noreturn void be_leaf(void)
{
	uint64_t state = (uint64_t)getpid() * 0x9e3779b97f4a7c15ull + 3;

	alarm(CHILD_S);
	churn(&state, 1000);
	empty_mailboxes();
	leave(0);
}

/* Signals end every sleep early. */
static void sleep_until(const struct timespec *when)
{
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, when, NULL) == EINTR)
		;
}

static void tell_alive(long seconds)
{
	struct timespec when;

	clock_gettime(CLOCK_MONOTONIC, &when);
	for (long i = 0; i < seconds; i++) {
		when.tv_sec++;
		sleep_until(&when);
		empty_mailboxes();
		dprintf(STDOUT_FILENO, "%ld\n", i + 1);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	long workers, forkers, count = 0;

	own_path = "/proc/self/exe";
	begin();
	if (argc == 2)
		be_leaf();
	workers = argc > 2 ? atol(argv[2]) : 3;
	forkers = argc > 3 ? atol(argv[3]) : 2;
	for (long i = 0; i < workers && count < 60; i++)
		pthread_create(&threads[count++], NULL, keep_alive, (void *)(uintptr_t)(i + 1));
	for (long i = 0; i < forkers && count < 62; i++)
		pthread_create(&threads[count++], NULL, keep_forking, (void *)(uintptr_t)(i + 1));
	pthread_create(&threads[count++], NULL, flip, NULL);
	tell_alive(argc > 1 ? atol(argv[1]) : 5);
	atomic_store(&over, true);
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	empty_mailboxes();
	dprintf(STDOUT_FILENO, "over\n");
	leave(atomic_load(&counts->wrong) || atomic_load(&counts->bad_children));
}
