/* survivors.c -- 2 million small blocks (--blocks), of which 1 in 16 at random stays: what goes
 * back when every page may hold a survivor. --how says how a trim is asked for (trim.h). With
 * --idle S none is asked for: the allocator is left alone with what it has. */
#include "trim.h"
#include "workload.h"

#define SMALLEST 64u
#define LARGEST  2111u

static void **blocks;
static size_t blocks_count;
static double full_rss;

/* Answers the bytes that stay. */
static double make_and_drop(void)
{
	uint64_t state = 88172645463325252u;
	double live_bytes = 0;

	for (size_t i = 0; i < blocks_count; i++) {
		size_t bytes = random_between(&state, SMALLEST, LARGEST);
		bool stays = next_random(&state) >> 60 == 0;

		blocks[i] = must_alloc(bytes);
		touch_block(blocks[i], bytes);
		live_bytes += stays ? (double)bytes : 0;
		if (!stays)
			blocks[i] = (void *)((uintptr_t)blocks[i] | 1);
	}
	full_rss = rss_mib();
	for (size_t i = 0; i < blocks_count; i++)
		if ((uintptr_t)blocks[i] & 1)
			free((void *)((uintptr_t)blocks[i] - 1));
	return live_bytes;
}

int main(int argc, char **argv)
{
	double idle_s = option_number(argc, argv, "--idle", 0);
	const char *how = idle_s > 0 ? "none" : option_text(argc, argv, "--how", "trim");
	struct trim trim = {.wall_s = 0};

	blocks_count = option_count(argc, argv, "--blocks", 2000000);
	blocks = must_alloc(blocks_count * sizeof *blocks);
	uint64_t begun = now_ns();
	double live_bytes = make_and_drop();
	double churn_s = seconds_since(begun), freed_rss = rss_mib();
	go_idle(idle_s);
	ask_for_trim(how, &trim);
	printf("{\"work_s\": %.3f, \"live_mib\": %.1f, \"full_rss_mib\": %.1f, \"freed_rss_mib\": "
	       "%.1f, "
	       "\"trimmed_rss_mib\": %.1f, \"churn_s\": %.3f, \"trim_s\": %.3f",
	       churn_s, live_bytes / MIB, full_rss, freed_rss, rss_mib(), churn_s, trim.wall_s);
	print_trim(&trim);
	puts("}");
	return 0;
}
