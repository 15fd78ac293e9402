/* threads_short.c -- many short threads, eight at a time, each with a hundred blocks: what a thread's birth and death
 * cost an allocator that keeps something for each. */
#include <pthread.h>

#include "workload.h"

#define AT_ONCE 8u
#define BLOCKS  100u

static void *live_shortly(void *argument)
{
	uint64_t state = (uintptr_t)argument + 1;
	void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = must_alloc(random_between(&state, 8, 4096));
		*(char *)blocks[i] = 1;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 20000);
	pthread_t ids[AT_ONCE];
	uint64_t begun = now_ns();

	for (size_t done = 0; done < threads; done += AT_ONCE) {
		for (size_t i = 0; i < AT_ONCE; i++)
			if (pthread_create(&ids[i], NULL, live_shortly, (void *)(done + i)) != 0)
				return 1;
		for (size_t i = 0; i < AT_ONCE; i++)
			pthread_join(ids[i], NULL);
	}
	double seconds = (double)(now_ns() - begun) / 1e9;
	printf("{\"total_s\": %.4f, \"us_per_thread\": %.3f, \"peak_mib\": %.1f, \"end_rss_mib\": %.1f}\n", seconds,
	       seconds * 1e6 / (double)threads, peak_mib(), rss_mib());
	return 0;
}
