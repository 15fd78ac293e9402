/* xmalloc.c -- one thread allocates, another frees: blocks of 16 to 1024 B travel in batches through a short queue. */
#include <pthread.h>

#include "workload.h"

#define BATCH 512u
#define QUEUE 16u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects head, tail and the batches between them */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static void *queue[QUEUE][BATCH];
static size_t head, tail; /* batches ever taken, batches ever put */
static size_t batches;

static void put_batch(void *const *batch)
{
	pthread_mutex_lock(&lock);
	while (tail - head == QUEUE)
		pthread_cond_wait(&moved, &lock);
	memcpy(queue[tail % QUEUE], batch, sizeof queue[0]);
	tail++;
	pthread_cond_signal(&moved);
	pthread_mutex_unlock(&lock);
}

static void take_batch(void **batch)
{
	pthread_mutex_lock(&lock);
	while (tail == head)
		pthread_cond_wait(&moved, &lock);
	memcpy(batch, queue[head % QUEUE], sizeof queue[0]);
	head++;
	pthread_cond_signal(&moved);
	pthread_mutex_unlock(&lock);
}

static void *consume(void *unused)
{
	void *batch[BATCH];

	(void)unused;
	for (size_t number = 0; number < batches; number++) {
		take_batch(batch);
		for (size_t i = 0; i < BATCH; i++)
			free(batch[i]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t consumer;
	uint64_t state = 4242;
	void *batch[BATCH];

	batches = option_count(argc, argv, "--batches", 20000);
	uint64_t begun = now_ns();
	if (pthread_create(&consumer, NULL, consume, NULL) != 0)
		return 1;
	for (size_t number = 0; number < batches; number++) {
		for (size_t i = 0; i < BATCH; i++) {
			char *block = must_alloc(random_between(&state, 16, 1024));

			block[0] = 1;
			batch[i] = block;
		}
		put_batch(batch);
	}
	pthread_join(consumer, NULL);
	double seconds = (double)(now_ns() - begun) / 1e9;
	printf("{\"total_s\": %.4f, \"ns_per_block\": %.2f, \"peak_mib\": %.1f}\n", seconds,
	       seconds * 1e9 / ((double)batches * BATCH), peak_mib());
	return 0;
}
