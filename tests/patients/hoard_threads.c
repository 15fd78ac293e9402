/* hoard_threads.c -- a server with a pool of threads under glibc: each thread has an arena of its
 * own, which a peak of requests has filled and a few long-lived entries keep from shrinking. What
 * is free in between stays resident: 8 threads x 20 MB. */
#include "patient.h"

enum { THREADS = 8, REQUESTS = 20 * 1024, KEEP_EACH = 512 };

static pthread_barrier_t peak;
static void *kept[THREADS][REQUESTS / KEEP_EACH];

static void serve_peak(size_t thread)
{
	void **requests = must(malloc(REQUESTS * sizeof(*requests)));

	for (size_t i = 0; i < REQUESTS; i++)
		requests[i] = filled(KB - 16);
	pthread_barrier_wait(&peak);
	for (size_t i = 0; i < REQUESTS; i++) {
		if (i % KEEP_EACH == KEEP_EACH - 1)
			kept[thread][i / KEEP_EACH] = requests[i];
		else
			free(requests[i]);
	}
	free(requests);
}

static void *worker(void *thread)
{
	serve_peak((size_t)thread);
	pthread_barrier_wait(&peak);
	for (;;)
		pause();
	return NULL;
}

int main(void)
{
	pthread_barrier_init(&peak, NULL, THREADS);
	for (size_t i = 1; i < THREADS; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, worker, (void *)i);
	}
	serve_peak(0);
	pthread_barrier_wait(&peak);
	ready();
	while (goes_on(100))
		free(filled(100));
	return 0;
}
