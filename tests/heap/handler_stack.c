/* handler_stack.c -- a program that allocates and frees a few MB again and again, beside a timer
 * whose handler looks where it runs and uses 600 kB of its stack. Prints how often the handler ran,
 * and how often outside of the thread's own stack. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum {
	BLOCKS = 8 << 10,
	BLOCK_BYTES = 1000,
	HANDLER_BYTES = 600 << 10,
	TIMES_LEAST = 150,
	ROUNDS_MOST = 3000
};

static char *lowest, *end;
static volatile sig_atomic_t times, outside;

static void handle(int sig)
{
	char room[HANDLER_BYTES];

	(void)sig;
	memset(room, 1, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
	times++;
	outside += room < lowest || room >= end;
}

int main(void)
{
	static void *blocks[BLOCKS];
	const struct itimerval each_ms = {{0, 1000}, {0, 1000}};
	const struct timespec pause = {0, 2000000};
	pthread_attr_t attributes;
	void *stack;
	size_t bytes;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &stack, &bytes);
	lowest = stack;
	end = lowest + bytes;
	signal(SIGPROF, handle);
	setitimer(ITIMER_PROF, &each_ms, NULL);
	for (int round = 0; round < ROUNDS_MOST && times < TIMES_LEAST; round++) {
		for (int i = 0; i < BLOCKS; i++)
			memset(blocks[i] = malloc(BLOCK_BYTES), 1, BLOCK_BYTES);
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		nanosleep(&pause, NULL);
	}
	printf("%d %d\n", (int)times, (int)outside);
	return 0;
}
