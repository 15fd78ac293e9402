/* larson.c -- a server whose threads hand their live objects on: each thread replaces random blocks in its set, then
 * ends, and a new thread takes the set over, so that most frees are of blocks another thread has allocated. */
#include <pthread.h>

#include "workload.h"

#define SET_BLOCKS  2000u
#define THREADS_MAX 64u
#define SMALLEST    10u
#define LARGEST     500u

struct set {
	pthread_t thread;
	uint64_t state;
	size_t replacements;
	void *blocks[SET_BLOCKS];
};

static struct set sets[THREADS_MAX];

static void *serve(void *argument)
{
	struct set *set = argument;

	for (size_t i = 0; i < set->replacements; i++) {
		size_t slot = random_between(&set->state, 0, SET_BLOCKS - 1);
		size_t bytes = random_between(&set->state, SMALLEST, LARGEST);

		free(set->blocks[slot]);
		char *block = must_alloc(bytes);
		block[0] = block[bytes - 1] = 1;
		set->blocks[slot] = block;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 4);
	size_t generations = option_count(argc, argv, "--generations", 100);
	size_t replacements = option_count(argc, argv, "--replacements", 50000);

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	uint64_t begun = now_ns();
	for (size_t i = 0; i < threads; i++) {
		sets[i].state = 77 + i;
		sets[i].replacements = replacements;
	}
	for (size_t generation = 0; generation < generations; generation++) {
		for (size_t i = 0; i < threads; i++)
			if (pthread_create(&sets[i].thread, NULL, serve, &sets[i]) != 0)
				return 1;
		for (size_t i = 0; i < threads; i++)
			pthread_join(sets[i].thread, NULL);
	}
	double seconds = (double)(now_ns() - begun) / 1e9;
	for (size_t i = 0; i < threads; i++)
		for (size_t slot = 0; slot < SET_BLOCKS; slot++)
			free(sets[i].blocks[slot]);
	double count = (double)threads * (double)generations * (double)replacements;
	printf("{\"total_s\": %.4f, \"ns_per_replacement\": %.2f, \"peak_mib\": %.1f}\n", seconds, seconds * 1e9 / count,
	       peak_mib());
	return 0;
}
