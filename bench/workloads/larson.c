/* larson.c -- a server whose threads hand their live objects on: each thread replaces random blocks
 * in its set, then ends, and a new thread takes the set over, so that most frees are of blocks
 * another thread has allocated. At the end the load has fallen: one set (--set blocks) stays, the
 * others are dropped. */
#include <pthread.h>

#include "workload.h"

#define THREADS_MAX 64u
#define SMALLEST    10u
#define LARGEST     500u

struct set {
	pthread_t thread;
	uint64_t state;
	void **blocks;
};

static struct set sets[THREADS_MAX];
static size_t set_blocks, replacements;

static void *serve(void *argument)
{
	struct set *set = argument;

	for (size_t i = 0; i < replacements; i++) {
		size_t slot = random_between(&set->state, 0, set_blocks - 1);
		size_t bytes = random_between(&set->state, SMALLEST, LARGEST);

		free(set->blocks[slot]);
		char *block = must_alloc(bytes);
		block[0] = block[bytes - 1] = 1;
		set->blocks[slot] = block;
	}
	return NULL;
}

static void drop_set(struct set *set)
{
	for (size_t slot = 0; slot < set_blocks; slot++)
		free(set->blocks[slot]);
	free(set->blocks);
}

static int run_generation(size_t threads)
{
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&sets[i].thread, NULL, serve, &sets[i]) != 0)
			return 0;
	for (size_t i = 0; i < threads; i++)
		pthread_join(sets[i].thread, NULL);
	return 1;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 4);
	size_t generations = option_count(argc, argv, "--generations", 100);

	replacements = option_count(argc, argv, "--replacements", 50000);
	set_blocks = option_count(argc, argv, "--set", 2000);
	if (threads < 1 || threads > THREADS_MAX || set_blocks < 1)
		return 2;
	for (size_t i = 0; i < threads; i++) {
		sets[i].state = 77 + i;
		sets[i].blocks = must_alloc(set_blocks * sizeof *sets[i].blocks);
		memset(sets[i].blocks, 0, set_blocks * sizeof *sets[i].blocks);
	}
	uint64_t begun = now_ns();
	for (size_t generation = 0; generation < generations; generation++)
		if (!run_generation(threads))
			return 1;
	double seconds = seconds_since(begun);
	for (size_t i = 1; i < threads; i++)
		drop_set(&sets[i]);
	double work = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	double count = (double)threads * (double)generations * (double)replacements;
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"ns_per_replacement\": %.2f, \"peak_mib\": "
	       "%.1f}\n",
	       work, seconds, seconds * 1e9 / count, peak_mib());
	drop_set(&sets[0]);
	return 0;
}
