/* malloc_large.c -- large buffers in constant motion: 20 live blocks of 5 to 25 MiB, one replaced
 * at random --times times, each touched. An allocator that gives pages back here pays for it in
 * page faults at once. */
#include "workload.h"

#define LIVE     20u
#define SMALLEST ((size_t)5 << 20)
#define LARGEST  ((size_t)25 << 20)

int main(int argc, char **argv)
{
	size_t times = option_count(argc, argv, "--times", 2000);
	uint64_t state = 0x9e3779b97f4a7c15u;
	void *live[LIVE] = {NULL};
	uint64_t begun = now_ns();

	for (size_t i = 0; i < times; i++) {
		size_t slot = random_between(&state, 0, LIVE - 1);
		size_t bytes = random_between(&state, SMALLEST, LARGEST);

		free(live[slot]);
		live[slot] = must_alloc(bytes);
		touch_block(live[slot], bytes);
	}
	for (size_t slot = 0; slot < LIVE; slot++)
		free(live[slot]);
	double seconds = seconds_since(begun), end_rss = rss_mib();
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"peak_mib\": %.1f, \"end_rss_mib\": %.1f, "
	       "\"minor_faults\": %ld}\n",
	       seconds, seconds, peak_mib(), end_rss, minor_faults());
	return 0;
}
