/* threads_short.c -- many short threads, --at-once at a time, each with --blocks blocks: what a
 * thread's birth and death cost an allocator that keeps something for each. --together 1: none
 * frees before all have allocated, as requests that wait for the same answer. --keep N: N of the
 * blocks outlive their thread, and a later thread frees them. */
#include <pthread.h>

#include "workload.h"

#define AT_ONCE_MAX 256u

static size_t blocks_each;
static size_t kept_each;
static void **kept[AT_ONCE_MAX]; /* by a thread of the group before */
static bool is_together;
static pthread_barrier_t filled;

static void free_all(void **blocks, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		free(blocks[i]);
}

/* slot: of the thread in its group, and the seed of its sizes */
struct life {
	size_t slot, seed;
};

static void *live_shortly(void *argument)
{
	const struct life *life = argument;
	uint64_t state = life->seed + 1;
	void **blocks = must_alloc(blocks_each * sizeof *blocks);

	for (size_t i = 0; i < blocks_each; i++) {
		blocks[i] = must_alloc(random_between(&state, 8, 4096));
		*(char *)blocks[i] = 1;
	}
	if (is_together)
		pthread_barrier_wait(&filled);
	free_all(blocks, kept_each, blocks_each);
	if (kept[life->slot]) {
		free_all(kept[life->slot], 0, kept_each);
		free(kept[life->slot]);
	}
	kept[life->slot] = kept_each ? blocks : NULL;
	if (!kept_each)
		free(blocks);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 20000);
	size_t at_once = option_count(argc, argv, "--at-once", 8);
	pthread_t ids[AT_ONCE_MAX];
	struct life lives[AT_ONCE_MAX];

	blocks_each = option_count(argc, argv, "--blocks", 100);
	is_together = option_count(argc, argv, "--together", 0) != 0;
	kept_each = option_count(argc, argv, "--keep", 0);
	if (at_once < 1 || at_once > AT_ONCE_MAX || blocks_each < 1 || kept_each > blocks_each)
		return 2;
	pthread_barrier_init(&filled, NULL, (unsigned)at_once);
	uint64_t begun = now_ns();
	for (size_t done = 0; done < threads; done += at_once) {
		for (size_t i = 0; i < at_once; i++) {
			lives[i] = (struct life){.slot = i, .seed = done + i};
			if (pthread_create(&ids[i], NULL, live_shortly, &lives[i]) != 0)
				return 1;
		}
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
