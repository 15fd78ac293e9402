/* resting_threads.c COUNT SMALLEST LARGEST KB -- so many threads take 1 MB three times in blocks of
 * these bytes, free all of it, and wait, each in one of five ways, of which one wakes up three
 * times a second for a block of SMALLEST. Waits up to 20 s until no more than KB are resident that
 * are no file's, and prints how many are. Then wakes the threads up: they work once more. Returns
 * how many bytes were not as they had been written. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rollup.h"

#define BYTES (1u << 20)
#define LEAST 16u

static size_t smallest, largest;
static pthread_barrier_t freed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static _Atomic int awake;
static int channel[2], full[2];
static _Atomic int wrong;

static void work(uint32_t seed)
{
	uint32_t state = seed;
	size_t bytes = 0, blocks = 0;
	unsigned char **block = malloc(BYTES / LEAST * sizeof(*block));

	for (; bytes < BYTES; blocks++) {
		size_t size;

		state = state * 1664525u + 1013904223u;
		size = smallest + (state >> 8) % (largest - smallest + 1);
		block[blocks] = malloc(size);
		memset(block[blocks], (int)(seed + blocks), size);
		bytes += size;
	}
	while (blocks-- > 0) {
		wrong += block[blocks][0] != (unsigned char)(seed + blocks);
		free(block[blocks]);
	}
	free(block);
}

static void wait_in_some_way(int number)
{
	struct pollfd input = {.fd = channel[0], .events = POLLIN};
	char byte = 0;

	switch (number % 5) {
	case 0:
		pthread_mutex_lock(&mutex);
		while (!awake)
			pthread_cond_wait(&woken, &mutex);
		pthread_mutex_unlock(&mutex);
		break;
	case 1:
		(void)poll(&input, 1, -1);
		break;
	case 2:
		(void)!read(channel[0], &byte, 1);
		break;
	case 3:
		(void)!write(full[1], &byte, 1);
		break;
	default:
		while (!awake) {
			free(malloc(smallest));
			usleep(300000);
		}
	}
}

static void *run(void *number)
{
	int own = (int)(intptr_t)number;

	for (int i = 0; i < 3; i++)
		work((uint32_t)own * 31u);
	pthread_barrier_wait(&freed);
	wait_in_some_way(own);
	work((uint32_t)own);
	pthread_barrier_wait(&freed);
	return NULL;
}

/* Fills a pipe: who writes to it from then on waits. */
static bool fill(int pipe_end)
{
	static const char page[4096];
	int flags = fcntl(pipe_end, F_GETFL);
	bool is_set = fcntl(pipe_end, F_SETFL, flags | O_NONBLOCK) == 0;

	while (write(pipe_end, page, sizeof(page)) > 0)
		;
	return is_set && errno == EAGAIN && fcntl(pipe_end, F_SETFL, flags) == 0;
}

int main(int argc, char **argv)
{
	int count = argc > 4 ? atoi(argv[1]) : 1;
	long wanted_kb = argc > 4 ? atol(argv[4]) : 0;

	(void)signal(SIGPIPE, SIG_IGN);
	smallest = argc > 4 ? strtoull(argv[2], NULL, 10) : LEAST;
	largest = argc > 4 ? strtoull(argv[3], NULL, 10) : smallest;
	if (pipe(channel) != 0 || pipe(full) != 0 || !fill(full[1]))
		return 255;
	pthread_barrier_init(&freed, NULL, (unsigned)count + 1);
	for (intptr_t i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, (void *)i) != 0)
			return 255;
	}
	pthread_barrier_wait(&freed);
	for (int i = 0; i < 200 && rollup_kb("Anonymous:") > wanted_kb; i++)
		usleep(100000);
	printf("%ld\n", rollup_kb("Anonymous:"));
	pthread_mutex_lock(&mutex);
	awake = 1;
	pthread_cond_broadcast(&woken);
	pthread_mutex_unlock(&mutex);
	close(full[0]);
	for (int i = 0; i < count; i++)
		if (write(channel[1], "", 1) != 1)
			return 255;
	pthread_barrier_wait(&freed);
	return wrong;
}
