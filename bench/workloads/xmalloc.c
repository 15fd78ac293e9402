/* xmalloc.c -- one thread allocates, another frees: blocks of 16 to 1024 B travel in batches
 * through a queue (--queue batches). --lag B: the consumer, once it finds nothing, sleeps until B
 * batches wait for it, as one that writes in bulk does; the queue then fills to that again and
 * again. */
#include <pthread.h>

#include "workload.h"

#define BATCH     512u
#define QUEUE_MAX 4096u

/* protects head, tail and the batches between them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static void *queue[QUEUE_MAX][BATCH];
static size_t head, tail; /* batches ever taken, batches ever put */
static size_t batches, queue_length, lag;

static void put_batch(void *const *batch)
{
	pthread_mutex_lock(&lock);
	while (tail - head == queue_length)
		pthread_cond_wait(&moved, &lock);
	memcpy(queue[tail % queue_length], batch, sizeof queue[0]);
	tail++;
	pthread_cond_signal(&moved);
	pthread_mutex_unlock(&lock);
}

static void take_batch(void **batch)
{
	pthread_mutex_lock(&lock);
	if (tail == head)
		while (tail - head < lag && tail < batches)
			pthread_cond_wait(&moved, &lock);
	memcpy(batch, queue[head % queue_length], sizeof queue[0]);
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

static void produce(void)
{
	uint64_t state = 4242;
	void *batch[BATCH];

	for (size_t number = 0; number < batches; number++) {
		for (size_t i = 0; i < BATCH; i++) {
			char *block = must_alloc(random_between(&state, 16, 1024));

			block[0] = 1;
			batch[i] = block;
		}
		put_batch(batch);
	}
}

int main(int argc, char **argv)
{
	pthread_t consumer;

	batches = option_count(argc, argv, "--batches", 20000);
	queue_length = option_count(argc, argv, "--queue", 16);
	lag = option_count(argc, argv, "--lag", 1);
	if (queue_length < 1 || queue_length > QUEUE_MAX || lag < 1 || lag > queue_length)
		return 2;
	uint64_t begun = now_ns();
	if (pthread_create(&consumer, NULL, consume, NULL) != 0)
		return 1;
	produce();
	pthread_join(consumer, NULL);
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"ns_per_block\": %.2f, \"peak_mib\": "
	       "%.1f}\n",
	       seconds, seconds, seconds * 1e9 / ((double)batches * BATCH), peak_mib());
	return 0;
}
