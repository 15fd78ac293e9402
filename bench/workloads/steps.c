/* steps.c -- a program that needs 1 GB for a moment, again and again: blocks of 4 MB, each
 * allocated and touched, all freed at the end of the step, then a sleep of --period seconds.
 * Purging between steps costs it page faults; not purging costs resident memory. Prints both. */
#include "workload.h"

#define BLOCK_BYTES ((size_t)4 << 20)
#define BLOCKS_MAX  4096u
#define STEPS_MAX   4096u

static void *blocks[BLOCKS_MAX];
static size_t blocks_count;
static double touch_s[STEPS_MAX];
static double between_rss[STEPS_MAX];

static void run_step(void)
{
	for (size_t i = 0; i < blocks_count; i++) {
		blocks[i] = must_alloc(BLOCK_BYTES);
		touch_block(blocks[i], BLOCK_BYTES);
	}
	for (size_t i = 0; i < blocks_count; i++)
		free(blocks[i]);
}

int main(int argc, char **argv)
{
	double period = option_number(argc, argv, "--period", 1.0);
	size_t steps = option_count(argc, argv, "--steps", 10);
	uint64_t begun = now_ns();
	double sum = 0;

	blocks_count = option_count(argc, argv, "--blocks", 256);
	if (steps < 1 || steps > STEPS_MAX || blocks_count > BLOCKS_MAX)
		return 2;
	for (size_t step = 0; step < steps; step++) {
		uint64_t from = now_ns();

		run_step();
		touch_s[step] = (double)(now_ns() - from) / 1e9;
		sum += touch_s[step];
		sleep_seconds(period);
		between_rss[step] = rss_mib();
	}
	double total = (double)(now_ns() - begun) / 1e9;
	double lowest = between_rss[0];
	double mean = 0;
	for (size_t step = 0; step < steps; step++) {
		lowest = between_rss[step] < lowest ? between_rss[step] : lowest;
		mean += between_rss[step] / (double)steps;
	}
	double first = touch_s[0], last = between_rss[steps - 1];
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"period_s\": %g, \"steps\": %zu, \"total_s\": %.4f, "
	       "\"touch_s\": %.4f, \"touch_first_s\": %.4f, "
	       "\"touch_median_s\": %.4f, \"rss_between_min_mib\": %.1f, "
	       "\"rss_between_median_mib\": %.1f, "
	       "\"rss_between_last_mib\": %.1f, \"rss_between_mean_mib\": %.1f, \"peak_mib\": "
	       "%.1f, \"minor_faults\": %ld}\n",
	       sum, period, steps, total, sum, first, median_of(touch_s, steps), lowest,
	       median_of(between_rss, steps), last, mean, peak_mib(), minor_faults());
	return 0;
}
