/* healthy_fragments.c -- blocks of all sizes, of which every second one lives long: pages stay half
 * empty, and nothing grows. */
#include "patient.h"

enum { SLOTS = 60 * 1000 };

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

int main(void)
{
	void **slots = must(calloc(SLOTS, sizeof(*slots)));
	uint64_t state = 1;

	for (size_t i = 0; i < SLOTS; i++)
		slots[i] = filled(64 + next_random(&state) % 4000);
	for (size_t i = 0; i < SLOTS; i++)
		if (i % 2 != 0) {
			free(slots[i]);
			slots[i] = NULL;
		}
	ready();
	while (goes_on(20))
		for (int i = 0; i < 200; i++) {
			size_t slot = next_random(&state) % SLOTS / 2 * 2;

			free(slots[slot]);
			slots[slot] = filled(64 + next_random(&state) % 4000);
		}
	return 0;
}
