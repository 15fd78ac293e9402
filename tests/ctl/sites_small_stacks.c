/* sites_small_stacks.c -- threads on stacks of 16 kB, the least that POSIX systems give, that
 * allocate. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *allocate(void *unused)
{
	for (size_t i = 0; i < 2000; i++)
		free(realloc(malloc(100 + i), 5000 + 3 * i));
	return unused;
}

int main(void)
{
	int ran = 0;

	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		pthread_attr_t attr;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 16384);
		if (pthread_create(&thread, &attr, allocate, NULL) == 0)
			ran += pthread_join(thread, NULL) == 0;
	}
	printf("threads %d\n", ran);
	return 0;
}
