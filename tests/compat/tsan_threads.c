/* tsan_threads.c -- threads that each allocate 20 MB, free it and end. Has no race. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MOST 8
#define BLOCKS       2000
#define BYTES        10000

static void *fill(void *unused)
{
	char *blocks[BLOCKS];

	(void)unused;
	for (int i = 0; i < BLOCKS; i++)
		if ((blocks[i] = malloc(BYTES)))
			memset(blocks[i], 1, 100);
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t threads[THREADS_MOST];

	for (int i = 0; i < count && i < THREADS_MOST; i++)
		if (pthread_create(&threads[i], NULL, fill, NULL) != 0)
			return 77;
	for (int i = 0; i < count && i < THREADS_MOST; i++)
		pthread_join(threads[i], NULL);
	puts("ends");
	return 0;
}
