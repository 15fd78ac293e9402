/* short_threads.c -- a server with a thread for each request: 1,000 threads, one after another,
 * each with 100 blocks of 8 to 4096 bytes. Prints the page faults of each of the last 900. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BLOCKS  100
#define THREADS 1000
#define FIRST   100

static void *request(void *argument)
{
	uint64_t state = (uintptr_t)argument;
	char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		size_t bytes = 8 + (state >> 33) % 4089;

		state = state * 6364136223846793005u + 1442695040888963407u;
		blocks[i] = malloc(bytes);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

int main(void)
{
	void *large = malloc(2 << 20); /* the process wakes up */
	long before = 0;

	for (uintptr_t i = 1; i <= THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, request, (void *)i) != 0)
			return 1;
		pthread_join(thread, NULL);
		if (i == FIRST)
			before = faults();
	}
	printf("%.1f\n", (double)(faults() - before) / (THREADS - FIRST));
	free(large);
	return 0;
}
