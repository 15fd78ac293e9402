/* hoard_between.c -- blocks of all sizes, of which every fourth one lives long while others come
 * and go: much lies free between live blocks, and no trim returns it. */
#include "patient.h"

enum { SLOTS = 200 * 1000, KEPT = 4 };

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
		if (i % KEPT != 0)
			free(slots[i]);
	ready();
	while (goes_on(20))
		for (int i = 0; i < 200; i++) {
			size_t slot = next_random(&state) % (SLOTS / KEPT) * KEPT;

			free(slots[slot]);
			slots[slot] = filled(64 + next_random(&state) % 4000);
		}
	return 0;
}
