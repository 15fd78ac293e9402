/* compute.c -- the control: arithmetic on one buffer, no malloc at all while the clock runs. It
 * must not move, whatever is preloaded; where it does, the machine is too noisy for the other
 * figures. --hold MB keeps the shim awake. */
#include "workload.h"

#define WORDS ((size_t)1 << 16)

int main(int argc, char **argv)
{
	size_t rounds = option_count(argc, argv, "--rounds", 8000);
	size_t hold_bytes = option_count(argc, argv, "--hold", 64) << 20;
	uint64_t *words = must_alloc(WORDS * sizeof *words);
	void *held = must_alloc(hold_bytes + 1);
	uint64_t state = 99, sum = 0;

	touch_block(held, hold_bytes + 1);
	for (size_t i = 0; i < WORDS; i++)
		words[i] = next_random(&state);
	uint64_t begun = now_ns();
	for (size_t round = 0; round < rounds; round++)
		for (size_t i = 0; i < WORDS; i++) {
			words[i] = words[i] * 6364136223846793005u +
				   (words[(i * 17 + round) % WORDS] >> 7);
			sum ^= words[i];
		}
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"sum\": \"%llx\"}\n", seconds, seconds,
	       (unsigned long long)sum);
	free(held);
	free(words);
	return 0;
}
