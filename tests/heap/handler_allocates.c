/* handler_allocates.c -- allocates in a signal handler, which POSIX does not allow, while main
 * allocates. Prints "goes on" where it has not been ended after a second. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define COUNT 1000

static void use_heap(void)
{
	void *blocks[COUNT];

	for (size_t i = 0; i < COUNT; i++)
		blocks[i] = malloc(16 + i * 37 % 4000);
	for (size_t i = 0; i < COUNT; i++)
		free(blocks[i]);
}

static void handle(int number)
{
	(void)number;
	use_heap();
}

int main(void)
{
	const struct sigaction action = {.sa_handler = handle};
	const struct itimerval often = {{0, 300}, {0, 300}};
	time_t end;

	free(malloc(2u << 20));
	use_heap();
	end = time(NULL) + 2;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (time(NULL) < end)
		use_heap();
	puts("goes on");
	return 0;
}
