#include "purge/adaptive_rounds.h"

#include <string.h>

#include "sys/os.h"
#include "sys/saturating.h"
#include "sys/attr.h"

#define FIRST_WINDOW 4
#define FLAT_BYTES   (8 * MT_MIB)
#define FLAT_SHARE   50 /* 1/50: 2 % */

static const uint64_t steps[] = {1, 2, 5};
#define LAST_STEP (sizeof(steps) / sizeof(steps[0]) - 1)

void mt_adaptive_rounds_start(struct mt_adaptive_rounds *adaptive)
{
	memset(adaptive, 0, sizeof(*adaptive));
	adaptive->window = FIRST_WINDOW;
}

uint64_t mt_adaptive_rounds_step(const struct mt_adaptive_rounds *adaptive)
{
	return steps[adaptive->step_index];
}

static bool is_close_to(uint64_t low, uint64_t high)
{
	return high - low <= mt_max_u64(low / FLAT_SHARE, FLAT_BYTES);
}

/* Compares the last `window` round ends. *out_low: the lowest of them. */
static bool is_flat(const struct mt_adaptive_rounds *adaptive, uint64_t *out_low)
{
	uint64_t low = UINT64_MAX;
	uint64_t high = 0;

	mt_assert(adaptive->window > 0 && adaptive->window <= MT_ADAPTIVE_ROUNDS_LONGEST);
	mt_assert(adaptive->count >= adaptive->window);
	for (uint64_t i = adaptive->count - adaptive->window; i < adaptive->count; i++) {
		uint64_t bytes = adaptive->ends[i % MT_ADAPTIVE_ROUNDS_LONGEST];

		low = mt_min_u64(low, bytes);
		high = mt_max_u64(high, bytes);
	}
	*out_low = low;
	return is_close_to(low, high);
}

static void set_step(struct mt_adaptive_rounds *adaptive, uint32_t step_index)
{
	mt_assert(step_index <= LAST_STEP);
	adaptive->step_index = step_index;
	adaptive->step_rounds = 0;
}

static void raise_step(struct mt_adaptive_rounds *adaptive)
{
	uint64_t low;

	if (adaptive->step_rounds < adaptive->window || !is_flat(adaptive, &low))
		return;
	if (adaptive->step_index == 0)
		adaptive->base_bytes = low;
	set_step(adaptive, adaptive->step_index + 1);
}

void mt_adaptive_rounds_add(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure)
{
	adaptive->ends[adaptive->count++ % MT_ADAPTIVE_ROUNDS_LONGEST] = bytes;
	if (pressure) {
		set_step(adaptive, 0);
		return;
	}
	adaptive->step_rounds++;
	if (adaptive->step_index > 0 && bytes < adaptive->base_bytes)
		adaptive->base_bytes = bytes;
	if (adaptive->step_index > 0 && !is_close_to(adaptive->base_bytes, bytes)) {
		set_step(adaptive, 0);
		if (adaptive->window < MT_ADAPTIVE_ROUNDS_LONGEST)
			adaptive->window *= 2;
	} else if (adaptive->step_index < LAST_STEP) {
		raise_step(adaptive);
	} else if (adaptive->step_rounds >= MT_ADAPTIVE_ROUNDS_LONGEST) {
		adaptive->window = FIRST_WINDOW;
		adaptive->step_rounds = MT_ADAPTIVE_ROUNDS_LONGEST;
	}
}
