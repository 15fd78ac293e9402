/* simple.c -- one thread makes N blocks of one size, then frees them in the order in which it made
 * them, again and again: the shape of glibc's benchtests bench-malloc-simple, with its four lengths
 * of a list (25, 100, 400, 1600) and its sizes of 16 to 4096 bytes. */
#include "workload.h"

#define LONGEST 1600u

static const size_t lengths[] = {25, 100, 400, LONGEST};
static const size_t sizes[] = {16, 64, 256, 1024, 4096};
static void *list[LONGEST];

static void make_and_free(size_t length, size_t bytes)
{
	for (size_t i = 0; i < length; i++) {
		list[i] = must_alloc(bytes);
		keep_block(list[i]);
	}
	for (size_t i = 0; i < length; i++)
		free(list[i]);
}

int main(int argc, char **argv)
{
	size_t pairs = option_count(argc, argv, "--pairs", 2000000);
	size_t shapes = 0;
	uint64_t begun = now_ns();

	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++, shapes++)
			for (size_t done = 0; done < pairs; done += lengths[l])
				make_and_free(lengths[l], sizes[s]);
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"ns_per_pair\": %.3f, \"peak_mib\": %.1f}\n", seconds,
	       seconds * 1e9 / (double)(pairs * shapes), peak_mib());
	return 0;
}
