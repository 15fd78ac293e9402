/* survivors.c -- 2 million small blocks, of which 1 in 16 at random stays: what a trim gives back when every page may
 * hold a survivor. --how trim|signal|mallctl|none says how the trim is asked for. */
#include "trim.h"
#include "workload.h"

#define BLOCKS    2000000u
#define SMALLEST  64u
#define LARGEST   2111u

int main(int argc, char **argv)
{
	const char *how = option_text(argc, argv, "--how", "trim");
	void **blocks = must_alloc(BLOCKS * sizeof *blocks);
	uint64_t state = 88172645463325252u;
	double live_bytes = 0;
	uint64_t begun = now_ns();

	for (size_t i = 0; i < BLOCKS; i++) {
		size_t bytes = random_between(&state, SMALLEST, LARGEST);
		bool stays = next_random(&state) >> 60 == 0;

		blocks[i] = must_alloc(bytes);
		touch_block(blocks[i], bytes);
		live_bytes += stays ? (double)bytes : 0;
		if (!stays)
			blocks[i] = (void *)((uintptr_t)blocks[i] | 1);
	}
	double full_rss = rss_mib();
	for (size_t i = 0; i < BLOCKS; i++)
		if ((uintptr_t)blocks[i] & 1)
			free((void *)((uintptr_t)blocks[i] - 1));
	double churn_s = (double)(now_ns() - begun) / 1e9;
	double freed_rss = rss_mib();
	uint64_t from = now_ns();
	ask_for_trim(how);
	printf("{\"live_mib\": %.1f, \"full_rss_mib\": %.1f, \"freed_rss_mib\": %.1f, \"trimmed_rss_mib\": %.1f, "
	       "\"churn_s\": %.3f, \"trim_s\": %.3f}\n",
	       live_bytes / MIB, full_rss, freed_rss, rss_mib(), churn_s, (double)(now_ns() - from) / 1e9);
	return 0;
}
