/* churn.c SECONDS THREADS -- the blocks of blocks.h. Threads end while their blocks live, so that
 * others free them. Prints "N blocks, 0 wrong". */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "blocks.h"

static _Atomic uint64_t blocks_count, wrong_count;

/* Makes about ten thousand blocks; others free the last of them. */
static void *live(void *argument)
{
	uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15ull + 1;

	churn(&state, 10000);
	return NULL;
}

/* Keeps one slot of threads busy: a new one for each that dies. */
static void *keep_alive(void *argument)
{
	uintptr_t number = (uintptr_t)argument;
	pthread_t thread;

	for (uintptr_t init = 1; !atomic_load(&over); init++) {
		if (pthread_create(&thread, NULL, live, (void *)(number * 100000 + init)) == 0)
			pthread_join(thread, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 5, threads = argc > 2 ? atol(argv[2]) : 4;
	struct timespec pause = {0, 700000000};
	struct timespec start, now;
	pthread_t workers[64];

	blocks.blocks = &blocks_count;
	blocks.wrong = &wrong_count;
	blocks.largest_bytes = 4 << 20;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 0; i < threads && i < 64; i++)
		pthread_create(&workers[i], NULL, keep_alive, (void *)(uintptr_t)(i + 1));
	do {
		nanosleep(&pause, NULL);
		empty_mailboxes();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < seconds);
	atomic_store(&over, true);
	for (long i = 0; i < threads && i < 64; i++)
		pthread_join(workers[i], NULL);
	printf("%" PRIu64 " blocks, %" PRIu64 " wrong\n", atomic_load(&blocks_count),
	       atomic_load(&wrong_count));
	return atomic_load(&wrong_count) != 0;
}
