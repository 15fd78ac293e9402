/* signals_storm.c -- thousands of signals a second while threads allocate, and while one changes
 * the handler.
 *   signals_storm SIGNAL SECONDS RATE none|handler|info|flip
 * Says what went wrong by numbers, all of which must be 0: blocks found damaged, errno changed
 * under a thread, handlers called with the wrong mask or arguments. `flip` sets two handlers with
 * different masks in turn, SIG_IGN and SIG_DFL. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "signals.h"

#define WORKERS    3
#define BLOCKS     256
#define BATCHES_HZ 1000

static atomic_bool over;
static atomic_ulong allocated, damaged, errno_lost, called, called_wrongly, flips;
static int the_signal;

static void expect_blocked(bool hup, bool term, bool itself)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	if ((sigismember(&now, SIGHUP) == 1) != hup || (sigismember(&now, SIGTERM) == 1) != term ||
	    (sigismember(&now, the_signal) == 1) != itself)
		called_wrongly++;
}

static void plain_handler(int sig)
{
	called++;
	if (sig != the_signal)
		called_wrongly++;
	expect_blocked(true, false, true);
	errno = 5;
}

static void info_handler(int sig, siginfo_t *info, void *context)
{
	called++;
	if (sig != the_signal || info->si_signo != sig || info->si_code != SI_USER || !context)
		called_wrongly++;
	expect_blocked(false, true, false);
}

static void set_plain(void)
{
	struct sigaction act = {.sa_handler = plain_handler, .sa_flags = SA_RESTART};

	sigaddset(&act.sa_mask, SIGHUP);
	sigaction(the_signal, &act, NULL);
}

static void set_info(void)
{
	struct sigaction act = {.sa_sigaction = info_handler,
				.sa_flags = SA_RESTART | SA_SIGINFO | SA_NODEFER};

	sigaddset(&act.sa_mask, SIGTERM);
	sigaction(the_signal, &act, NULL);
}

/* plain_handler spoils errno as handlers do; the thread's own check is made where none may. */
static void *work(void *spoiled)
{
	unsigned char *blocks[BLOCKS] = {0};
	size_t sizes[BLOCKS] = {0};
	unsigned seed = (unsigned)(size_t)&blocks;

	while (!over) {
		unsigned i = (unsigned)rand_r(&seed) % BLOCKS;

		for (size_t at = 0; at < sizes[i]; at += 512)
			if (blocks[i][at] != (unsigned char)i)
				damaged++;
		errno = 77;
		free(blocks[i]);
		if (errno != 77 && !spoiled)
			errno_lost++;
		sizes[i] = 1 + (size_t)rand_r(&seed) % (allocated % 64 == 0 ? 400000 : 4000);
		blocks[i] = malloc(sizes[i]);
		memset(blocks[i], (int)i, sizes[i]);
		allocated++;
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

static void *flip(void *unused)
{
	(void)unused;
	for (; !over; flips++) {
		struct sigaction seen;

		set_plain();
		sigaction(the_signal, NULL, &seen);
		if (seen.sa_handler != plain_handler)
			called_wrongly++;
		set_info();
		signal(the_signal, SIG_IGN);
		if (signal(the_signal, SIG_DFL) != SIG_IGN)
			called_wrongly++;
	}
	return NULL;
}

/* Another process, so that the signals are SI_USER and go to whichever thread is there. */
static void send(pid_t target, unsigned long rate)
{
	const struct timespec step = {.tv_nsec = 1000000000 / BATCHES_HZ};
	struct timespec next;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		for (unsigned long i = 0; i < rate / BATCHES_HZ; i++)
			if (kill(target, the_signal) < 0)
				_exit(0);
		next.tv_nsec += step.tv_nsec;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

static void wait_seconds(long seconds)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS + 1];
	pid_t sender, self = getpid();
	bool flipping, plain;
	int count = 0;

	if (argc < 5)
		return 2;
	the_signal = atoi(argv[1]);
	flipping = strcmp(argv[4], "flip") == 0;
	plain = strcmp(argv[4], "handler") == 0;
	if (plain)
		set_plain();
	if (strcmp(argv[4], "info") == 0)
		set_info();
	for (; count < WORKERS; count++)
		pthread_create(&threads[count], NULL, work, plain || flipping ? argv : NULL);
	if (flipping)
		pthread_create(&threads[count++], NULL, flip, NULL);
	sender = fork();
	if (sender == 0)
		send(self, strtoul(argv[3], NULL, 10));
	wait_seconds(atol(argv[2]));
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	over = true;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("allocated %lu called %lu flips %lu damaged %lu errno_lost %lu called_wrongly %lu\n",
	       allocated, called, flips, damaged, errno_lost, called_wrongly);
	return damaged || errno_lost || called_wrongly ? 1 : 0;
}
