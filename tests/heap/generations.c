/* generations.c THREADS MIB COUNT -- COUNT generations of threads, each joined before the next
 * begins. A thread fills MIB with blocks of 16 to 4,096 bytes and frees them. Prints the page
 * faults of the first generation, and of all later ones together. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define THREADS_MOST 64

static size_t bytes_each;

static void *fill_and_free(void *seed)
{
	uint64_t state = (uintptr_t)seed;
	void **last = NULL;

	for (size_t used = 0; used < bytes_each;) {
		size_t bytes = 16 + (state >> 33) % 4081;
		void **block = malloc(bytes);

		state = state * 6364136223846793005u + 1442695040888963407u;
		if (!block)
			abort();
		memset(block, 1, bytes);
		*block = last;
		last = block;
		used += bytes;
	}
	while (last) {
		void **before = *last;

		free(last);
		last = before;
	}
	return NULL;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

int main(int argc, char **argv)
{
	unsigned threads = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	int count = argc == 4 ? atoi(argv[3]) : 0;
	long begun = faults(), first = 0;
	pthread_t ids[THREADS_MOST];

	if (threads < 1 || threads > THREADS_MOST)
		return 2;
	bytes_each = (size_t)atoi(argv[2]) << 20;
	for (int generation = 0; generation < count; generation++) {
		for (uintptr_t i = 0; i < threads; i++)
			if (pthread_create(&ids[i], NULL, fill_and_free, (void *)(i + 1)) != 0)
				return 1;
		for (unsigned i = 0; i < threads; i++)
			pthread_join(ids[i], NULL);
		if (generation == 0)
			first = faults() - begun;
	}
	printf("%ld %ld\n", first, faults() - begun - first);
	return 0;
}
