/* vfork_copy.c clone|syscall -- a thread makes a child by CLONE_VFORK without CLONE_VM, which lives
 * for 1.5 s and allocates; prints how many ms main's malloc_trim takes meanwhile, and how the child
 * ended. */
#include <linux/sched.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD_BYTES (64u << 20)

static int by_call;
static char stack[256 << 10];

static int live(void *unused)
{
	(void)unused;
	memset(malloc(1 << 20), 1, 1 << 20);
	usleep(1500000);
	_exit(5);
}

static void *make_child(void *out)
{
	int status = -1;
	long child;

	if (by_call)
		child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	else
		child = clone(live, stack + sizeof(stack), CLONE_VFORK | SIGCHLD, NULL);
	if (child == 0)
		live(NULL);
	waitpid((pid_t)child, &status, 0);
	*(int *)out = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return NULL;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int ended = -1;
	long began;

	by_call = argc > 1 && strcmp(argv[1], "syscall") == 0;
	memset(malloc(HELD_BYTES), 1, HELD_BYTES);
	usleep(300000); /* the shim's thread is there */
	pthread_create(&thread, NULL, make_child, &ended);
	usleep(300000); /* and the child */
	began = now_ms();
	malloc_trim(0);
	printf("%ld ms", now_ms() - began);
	pthread_join(thread, NULL);
	printf(", the child ended with %d\n", ended);
	return 0;
}
