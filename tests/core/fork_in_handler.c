/* fork_in_handler.c -- a program of one thread whose signal handler makes children while main
 * allocates, and makes children itself. POSIX allowed fork in a handler, glibc still supports it in
 * a program of one thread. Usage: fork_in_handler WAY SECONDS
 *   timer       a handler of SIGALRM forks a thousandth of a second after it last returned
 *   supervisor  a handler of SIGCHLD forks the replacement of each child that ends
 *   raw         as timer, with _Fork in main and handler
 *   returns     as timer; the child returns from the handler, allocates on, and ends
 *   flags       as returns; main frees large blocks whose pages carry flags
 * Prints how many children there were, and how many of them failed; on stderr how long the slowest
 * call took. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS  512
#define WORKERS 4

static pid_t (*make_raw)(void) = fork;
static volatile sig_atomic_t children, well, is_returning_child, is_over;
static int returns;
static pid_t workers[WORKERS];

static double longest;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static pid_t make(void)
{
	double began = now();
	pid_t child = make_raw();

	if (now() - began > longest)
		longest = now() - began;
	return child;
}

static void reap(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return;
	well += status == 0;
}

/* main always gets some time between two signals. */
static void wind_up(long usec)
{
	const struct itimerval once = {{0, 0}, {0, usec}};

	setitimer(ITIMER_REAL, &once, NULL);
}

static void on_timer(int number)
{
	int kept = errno;
	pid_t child = make();

	(void)number;
	if (child == 0 && returns) {
		is_returning_child = 1;
		return;
	}
	if (child == 0)
		_exit(0);
	if (child > 0) {
		children++;
		reap(child);
	}
	wind_up(1000);
	errno = kept;
}

static void start_worker_process(int slot)
{
	pid_t child = fork();

	if (child == 0) {
		usleep(100000);
		_exit(0);
	}
	workers[slot] = child;
	children += child > 0;
}

/* Children that main makes are reaped here too, and not replaced. */
static void on_child(int number)
{
	int kept = errno;
	pid_t ended;

	(void)number;
	while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
		for (int slot = 0; slot < WORKERS && !is_over; slot++)
			if (workers[slot] == ended)
				start_worker_process(slot);
	errno = kept;
}

/* The library replaces the mapping when the block is free, which takes the kernel a while. */
static void use_flagged(void)
{
	static const size_t bytes = 16u << 20;
	char *block = malloc(bytes);

	if (!block)
		abort();
	memset(block, 1, bytes);
	(void)madvise((void *)(((uintptr_t)block + 4095) / 4096 * 4096), bytes / 2, MADV_DONTDUMP);
	free(block);
	if (is_returning_child)
		_exit(0);
}

/* A child that came back from the handler ends here. */
static void allocate(double seconds)
{
	static char *blocks[BLOCKS];
	double end = now() + seconds;
	unsigned seed = 1;
	int after = 0;

	for (int i = 0; now() < end; i++) {
		int slot = rand_r(&seed) % BLOCKS;
		size_t bytes = (size_t)rand_r(&seed) % (i % 64 ? 20000 : 4000000) + 1;

		free(blocks[slot]);
		blocks[slot] = malloc(bytes);
		if (!blocks[slot])
			abort();
		memset(blocks[slot], 1, bytes < 4096 ? bytes : 4096);
		if (is_returning_child && after++ == 100)
			_exit(0);
		if (i % 50 == 0 && !is_returning_child) {
			pid_t child = make();

			if (child == 0)
				_exit(0);
			if (make_raw != fork || returns || children == 0)
				waitpid(child, NULL, 0);
		}
	}
	if (is_returning_child)
		_exit(0);
}

int main(int count, char **arguments)
{
	struct sigaction action = {0};
	int is_supervisor, has_flags;

	if (count < 3)
		return 2;
	is_supervisor = strcmp(arguments[1], "supervisor") == 0;
	has_flags = strcmp(arguments[1], "flags") == 0;
	returns = has_flags || strcmp(arguments[1], "returns") == 0;
	if (strcmp(arguments[1], "raw") == 0)
		make_raw = _Fork;
	action.sa_handler = is_supervisor ? on_child : on_timer;
	action.sa_flags = SA_RESTART;
	sigaction(is_supervisor ? SIGCHLD : SIGALRM, &action, NULL);
	/* grown before the first signal: the library's thread runs */
	free(memset(malloc(64 << 20), 1, 64 << 20));
	for (int slot = 0; is_supervisor && slot < WORKERS; slot++)
		start_worker_process(slot);
	if (!is_supervisor)
		wind_up(1000);
	for (double end = now() + atof(arguments[2]); has_flags && now() < end;)
		use_flagged();
	if (!has_flags)
		allocate(atof(arguments[2]));
	is_over = 1;
	wind_up(0);
	while (wait(NULL) > 0)
		;
	printf("%d children, %d failed\n", (int)children,
	       is_supervisor ? 0 : (int)(children - well));
	fprintf(stderr, "longest call: %d ms\n", (int)(longest * 1000));
	return children > 10 ? 0 : 1;
}
