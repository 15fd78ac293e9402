/* idle_threads.c COUNT MIB -- each thread fills MIB with blocks of 16 B to 64 KiB, frees them all
 * and waits. Prints "ready" and then waits for the end of its input. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BLOCKS (1 << 16)

static pthread_barrier_t all_done;
static size_t total_bytes;

static void *fill_and_wait(void *seed)
{
	unsigned random = (unsigned)(size_t)seed * 7919 + 1;
	void **blocks = malloc(MAX_BLOCKS * sizeof(*blocks));
	size_t count = 0;

	for (size_t used = 0; used < total_bytes && count < MAX_BLOCKS;) {
		random = random * 1103515245 + 12345;
		size_t least = (size_t)16 << (random >> 16) % 12;
		size_t size = least + ((random >> 8) & (least - 1));

		blocks[count++] = memset(malloc(size), 1, size);
		used += size;
	}
	while (count)
		free(blocks[--count]);
	free(blocks);
	pthread_barrier_wait(&all_done);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	pthread_t thread;

	total_bytes = argc > 2 ? (size_t)atoi(argv[2]) << 20 : 0;
	pthread_barrier_init(&all_done, NULL, threads + 1);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, fill_and_wait, (void *)i))
			return 1;
	pthread_barrier_wait(&all_done);
	puts("ready");
	fflush(stdout);
	getchar();
	return 0;
}
