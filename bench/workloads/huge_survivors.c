/* huge_survivors.c -- blocks of 512 to 2,048 bytes of which one in 20 is kept, so that each page of
 * 2 MB has free pages of 4 KiB and used ones. bench/huge/huge.py watches what becomes of them. */
#include "workload.h"

#define SMALLEST 512u
#define LARGEST  2048u

int main(int argc, char **argv)
{
	size_t count = option_count(argc, argv, "--blocks", 300000);
	void **blocks = must_alloc(count * sizeof(*blocks));
	uint64_t state = 0x9e3779b97f4a7c15u, begun = now_ns();
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = random_between(&state, SMALLEST, LARGEST);

		blocks[i] = must_alloc(bytes);
		touch_block(blocks[i], bytes);
	}
	for (size_t i = 0; i < count; i++) {
		if (i % 20)
			free(blocks[i]);
		else
			kept++;
	}
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"kept\": %zu, \"peak_mib\": %.1f, \"end_rss_mib\": %.1f}\n",
	       seconds, kept, peak_mib(), rss_mib());
	return 0;
}
