/* busy_atfork.c -- a program of one thread whose fork handlers do what they like: allocate, trim,
 * read malloc's figures, fork, start a thread. The child does so too, and its signal mask is its
 * parent's. Usage: busy_atfork SECONDS */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int depth;

static void *allocate(void *unused)
{
	free(malloc(3000));
	return unused;
}

static void allocate_some(void)
{
	void *blocks[20];

	for (size_t i = 0; i < 20; i++)
		blocks[i] = calloc(1, i * i * 500 + 1);
	for (size_t i = 0; i < 20; i++)
		free(blocks[i]);
}

static void fork_again(void)
{
	pid_t child;

	if (depth++ == 0) {
		child = fork();
		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	depth--;
}

static void work(void)
{
	pthread_t thread;

	allocate_some();
	malloc_trim(0);
	(void)mallinfo2();
	if (pthread_create(&thread, NULL, allocate, NULL) == 0)
		pthread_join(thread, NULL);
	fork_again();
}

int main(int count, char **arguments)
{
	time_t end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
	int forks = 0, failed = 0;
	sigset_t before, after;

	/* the kernel and libc write 8 of their bytes */
	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	free(memset(malloc(40 << 20), 1, 40 << 20));
	pthread_atfork(work, work, work);
	sigprocmask(SIG_BLOCK, NULL, &before);
	while (time(NULL) < end) {
		pid_t child = fork();
		int status = 1;

		sigprocmask(SIG_BLOCK, NULL, &after);
		if (child == 0)
			_exit(memcmp(&before, &after, sizeof(before)) != 0);
		failed += waitpid(child, &status, 0) != child || status != 0 ||
			  memcmp(&before, &after, sizeof(before)) != 0;
		forks++;
	}
	printf("%d forks, %d failed\n", forks, failed);
	return failed != 0;
}
