/* mstress.c -- threads die while their objects live: each generation of threads leaves part of its
 * blocks in a shared table (--table blocks), from which threads of later generations take and free
 * them. At the end 1 in 8 of its blocks stays. */
#include <pthread.h>
#include <stdatomic.h>

#include "workload.h"

#define TABLE_MAX   (1u << 20)
#define STAY_EVERY  8u
#define OWN         500u
#define THREADS_MAX 64u

static _Atomic(void *) table[TABLE_MAX]; /* exchange hands a block over: acquire-release */
static size_t rounds, table_length;

/* Mostly small, some medium, a few large: as objects of a program are. */
static size_t next_size(uint64_t *state)
{
	size_t dice = random_between(state, 0, 999);

	if (dice < 900)
		return random_between(state, 8, 256);
	return dice < 990 ? random_between(state, 257, 8192) : random_between(state, 8193, 262144);
}

static void *live_and_die(void *argument)
{
	uint64_t state = (uintptr_t)argument * 2654435761u + 1;
	void *own[OWN] = {NULL};

	for (size_t i = 0; i < rounds; i++) {
		size_t slot = random_between(&state, 0, OWN - 1);
		size_t bytes = next_size(&state);
		char *block = must_alloc(bytes);

		block[0] = block[bytes - 1] = 1;
		if (random_between(&state, 0, 9) == 0) {
			free(atomic_exchange(&table[random_between(&state, 0, table_length - 1)],
					     block));
		} else {
			free(own[slot]);
			own[slot] = block;
		}
	}
	for (size_t slot = 0; slot < OWN; slot++)
		free(atomic_exchange(&table[random_between(&state, 0, table_length - 1)],
				     own[slot]));
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 4);
	size_t generations = option_count(argc, argv, "--generations", 50);
	pthread_t ids[THREADS_MAX];

	rounds = option_count(argc, argv, "--rounds", 20000);
	table_length = option_count(argc, argv, "--table", 4096);
	if (threads < 1 || threads > THREADS_MAX || table_length < 1 || table_length > TABLE_MAX)
		return 2;
	uint64_t begun = now_ns();
	for (size_t generation = 0; generation < generations; generation++) {
		for (size_t i = 0; i < threads; i++)
			if (pthread_create(&ids[i], NULL, live_and_die,
					   (void *)(generation * threads + i + 1)) != 0)
				return 1;
		for (size_t i = 0; i < threads; i++)
			pthread_join(ids[i], NULL);
	}
	double seconds = seconds_since(begun), end_rss = rss_mib();
	for (size_t slot = 0; slot < table_length; slot++)
		if (slot % STAY_EVERY != 0)
			free(atomic_exchange(&table[slot], NULL));
	double work = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"ns_per_block\": %.2f, \"peak_mib\": %.1f, "
	       "\"end_rss_mib\": %.1f}\n",
	       work, seconds,
	       seconds * 1e9 / ((double)threads * (double)generations * (double)rounds), peak_mib(),
	       end_rss);
	for (size_t slot = 0; slot < table_length; slot++)
		free(atomic_exchange(&table[slot], NULL));
	return 0;
}
