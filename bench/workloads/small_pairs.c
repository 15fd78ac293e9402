/* small_pairs.c -- the hot path. --mode fixed: malloc(64), free, again. --mode mixed: a window of
 * 256 live blocks of 8 to 1024 B, the oldest replaced by the next. --keep-every K: of those, 1 in K
 * is kept in a list, as objects are that outlive the work that made them; at the end the older
 * three quarters of the list are dropped. --small 1: the process stays small before the loop; else
 * it makes a block of 2 MB first, as a program that is worth a measurement has: the library serves
 * small processes in another way. Sizes are drawn before the clock starts, so the loop is
 * the same few instructions under every allocator, and the difference between two runs of different
 * length is the pairs alone. */
#include <pthread.h>
#include <stdbool.h>

#include "workload.h"

#define WINDOW      256u
#define SIZES       4096u
#define THREADS_MAX 64u
#define STAY_SHARE  4u /* 1 in so many of the list */

static size_t sizes[SIZES];
static size_t pairs, keep_every;
static bool mixed;

static void run_fixed(void)
{
	for (size_t i = 0; i < pairs; i++) {
		void *block = malloc(64);

		keep_block(block);
		free(block);
	}
}

static void run_mixed(void)
{
	void *window[WINDOW] = {NULL};

	for (size_t i = 0; i < pairs; i++) {
		size_t slot = i % WINDOW;

		free(window[slot]);
		window[slot] = malloc(sizes[i % SIZES]);
		keep_block(window[slot]);
	}
	for (size_t slot = 0; slot < WINDOW; slot++)
		free(window[slot]);
}

static void run_keeping(void)
{
	size_t kept = 0, longest = pairs / keep_every + 1;
	void **list = must_alloc(longest * sizeof *list);
	void *window[WINDOW] = {NULL};

	for (size_t i = 0, until = keep_every; i < pairs; i++) {
		size_t slot = i % WINDOW;

		if (--until == 0) {
			until = keep_every;
			list[kept++] = window[slot];
		} else {
			free(window[slot]);
		}
		window[slot] = must_alloc(sizes[i % SIZES]);
		*(char *)window[slot] = 1;
	}
	for (size_t slot = 0; slot < WINDOW; slot++)
		free(window[slot]);
	for (size_t i = 0; i < kept - kept / STAY_SHARE; i++)
		free(list[i]);
	keep_block(list);
}

static void *run_thread(void *unused)
{
	(void)unused;
	if (keep_every)
		run_keeping();
	else if (mixed)
		run_mixed();
	else
		run_fixed();
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = option_count(argc, argv, "--threads", 1);
	uint64_t state = 1234567890123u;
	pthread_t ids[THREADS_MAX];

	pairs = option_count(argc, argv, "--pairs", 20000000);
	keep_every = option_count(argc, argv, "--keep-every", 0);
	mixed = strcmp(option_text(argc, argv, "--mode", "mixed"), "mixed") == 0;
	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (size_t i = 0; i < SIZES; i++)
		sizes[i] = random_between(&state, 8, 1024);
	if (!option_count(argc, argv, "--small", 0))
		free(must_alloc(2 << 20));
	uint64_t begun = now_ns();
	for (size_t i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run_thread, NULL) != 0)
			return 1;
	run_thread(NULL);
	for (size_t i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"ns_per_pair\": %.3f, \"peak_mib\": %.1f}\n",
	       seconds, seconds, seconds * 1e9 / (double)pairs, peak_mib());
	return 0;
}
