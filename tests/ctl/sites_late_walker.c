/* sites_late_walker.c -- a thread that is interrupted in the middle of a stack walk, and does not
 * come back to it while the process forks: prints how many milliseconds the fork took, and then how
 * many the five forks of its child. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKS 5

static volatile sig_atomic_t interrupted;

static void stay(int number)
{
	const struct timespec pause = {1, 0};

	(void)number;
	interrupted = true;
	nanosleep(&pause, NULL);
}

static void *allocate(void *unused)
{
	for (;;)
		free(malloc(5000));
	return unused;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void child(int out)
{
	long began = now_ms(), took;

	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	took = now_ms() - began;
	_exit(write(out, &took, sizeof(took)) != (ssize_t)sizeof(took));
}

int main(void)
{
	const struct sigaction action = {.sa_handler = stay};
	pthread_t thread;
	long began, first, later = -1;
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 ||
	    pthread_create(&thread, NULL, allocate, NULL) != 0)
		return 2;
	usleep(50000);
	pthread_kill(thread, SIGUSR1);
	while (!interrupted)
		usleep(1000);
	began = now_ms();
	pid = fork();
	if (pid == 0)
		child(ends[1]);
	first = now_ms() - began;
	if (read(ends[0], &later, sizeof(later)) != (ssize_t)sizeof(later))
		return 3;
	waitpid(pid, NULL, 0);
	printf("%ld %ld\n", first, later);
	return 0;
}
