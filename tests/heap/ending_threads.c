/* ending_threads.c COUNT -- under a limit of 800 MB of address space two threads create so many
 * detached threads with large stacks, which end at once. In its end a thread frees memory of
 * others, whose stacks libc unmaps. Prints "done".
 * Source: glibc's nptl/tst-create-detached. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static _Atomic int left;
static pthread_attr_t detached;

static void *nothing(void *argument)
{
	return argument;
}

/* A thread may be refused while libc still holds the stacks of ended ones. */
static void *create(void *argument)
{
	pthread_t thread;

	while (left > 0)
		if (pthread_create(&thread, &detached, nothing, NULL) == 0)
			left--;
	return argument;
}

int main(int count, char **arguments)
{
	const struct rlimit limit = {800u << 20, 800u << 20};
	pthread_t creators[2];

	left = count > 1 ? atoi(arguments[1]) : 100000;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 2;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 16u << 20);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&creators[i], NULL, create, NULL) != 0)
			return 3;
	for (int i = 0; i < 2; i++)
		pthread_join(creators[i], NULL);
	puts("done");
	return 0;
}
