/* pressure_threads.c -- 16 threads fill 12 MB each with blocks of 1 KiB, free them and end; then
 * one thread fills 200 MB and ends; three times. No more than 203 MB are ever live. Prints
 * "done". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 1024
#define THREADS     16
#define ROUNDS      3
#define FEW         ((size_t)12 << 10)  /* blocks of a thread among many */
#define MANY        ((size_t)200 << 10) /* blocks of the one thread */

static void *fill(void *argument)
{
	size_t count = *(const size_t *)argument;
	void **blocks = malloc(count * sizeof(*blocks));

	if (!blocks)
		abort();
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(BLOCK_BYTES);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, BLOCK_BYTES);
	}
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
	return NULL;
}

static void run(size_t threads, size_t count)
{
	pthread_t ids[THREADS];

	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, fill, &count) != 0)
			abort();
	for (size_t i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		run(THREADS, FEW);
		run(1, MANY);
	}
	puts("done");
	return 0;
}
