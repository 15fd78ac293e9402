/* threads_short.c -- many short threads, --at-once at a time, each with --blocks blocks: what a
 * thread's birth and death cost an allocator that keeps something for each. --together 1: none
 * frees before all have allocated, as requests that wait for the same answer. */
#include <pthread.h>

#include "workload.h"

#define AT_ONCE_MAX 256u

static size_t blocks_each;
static bool is_together;
static pthread_barrier_t filled;

static void *live_shortly(void *argument)
{
	uint64_t state = (uintptr_t)argument + 1;
	void **blocks = must_alloc(blocks_each * sizeof *blocks);

	for (size_t i = 0; i < blocks_each; i++) {
		blocks[i] = must_alloc(random_between(&state, 8, 4096));
		*(char *)blocks[i] = 1;
	}
	if (is_together)
		pthread_barrier_wait(&filled);
	for (size_t i = 0; i < blocks_each; i++)
		free(blocks[i]);
	free(blocks);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 20000);
	size_t at_once = option_count(argc, argv, "--at-once", 8);
	pthread_t ids[AT_ONCE_MAX];

	blocks_each = option_count(argc, argv, "--blocks", 100);
	is_together = option_count(argc, argv, "--together", 0) != 0;
	if (at_once < 1 || at_once > AT_ONCE_MAX || blocks_each < 1)
		return 2;
	pthread_barrier_init(&filled, NULL, (unsigned)at_once);
	uint64_t begun = now_ns();
	for (size_t done = 0; done < threads; done += at_once) {
		for (size_t i = 0; i < at_once; i++)
			if (pthread_create(&ids[i], NULL, live_shortly, (void *)(done + i)) != 0)
				return 1;
		for (size_t i = 0; i < at_once; i++)
			pthread_join(ids[i], NULL);
	}
	double seconds = seconds_since(begun), end_rss = rss_mib();
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"us_per_thread\": %.3f, \"peak_mib\": %.1f, "
	       "\"end_rss_mib\": %.1f}\n",
	       seconds, seconds, seconds * 1e6 / (double)threads, peak_mib(), end_rss);
	return 0;
}
