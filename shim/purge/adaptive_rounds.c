#include "purge/adaptive_rounds.h"

#include <string.h>

#include "sys/os.h"

#define FIRST_PATIENCE 4
#define FLAT_BYTES     (8 * MT_MIB)
#define FLAT_SHARE     50 /* a fiftieth: 2 % */

static const uint64_t steps[] = {1, 2, 5};
#define LAST_RUNG (sizeof(steps) / sizeof(steps[0]) - 1)

void mt_adaptive_rounds_start(struct mt_adaptive_rounds *adaptive)
{
	memset(adaptive, 0, sizeof(*adaptive));
	adaptive->patience = FIRST_PATIENCE;
}

uint64_t mt_adaptive_rounds_step(const struct mt_adaptive_rounds *adaptive)
{
	return steps[adaptive->rung];
}

static bool is_within(uint64_t low, uint64_t high)
{
	uint64_t most = low / FLAT_SHARE > FLAT_BYTES ? low / FLAT_SHARE : FLAT_BYTES;

	return high - low <= most;
}

/* Of the last `patience` round ends; *out_low is the lowest of them. */
static bool is_flat(const struct mt_adaptive_rounds *adaptive, uint64_t *out_low)
{
	uint64_t low = UINT64_MAX;
	uint64_t high = 0;

	for (uint64_t i = adaptive->count - adaptive->patience; i < adaptive->count; i++) {
		uint64_t bytes = adaptive->ends[i % MT_ADAPTIVE_ROUNDS_LONGEST];

		low = bytes < low ? bytes : low;
		high = bytes > high ? bytes : high;
	}
	*out_low = low;
	return is_within(low, high);
}

static void step_onto(struct mt_adaptive_rounds *adaptive, uint32_t rung)
{
	adaptive->rung = rung;
	adaptive->held = 0;
}

static void climb(struct mt_adaptive_rounds *adaptive)
{
	uint64_t low;

	if (adaptive->held < adaptive->patience || !is_flat(adaptive, &low))
		return;
	if (adaptive->rung == 0)
		adaptive->base_bytes = low;
	step_onto(adaptive, adaptive->rung + 1);
}

void mt_adaptive_rounds_round(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure)
{
	adaptive->ends[adaptive->count++ % MT_ADAPTIVE_ROUNDS_LONGEST] = bytes;
	if (pressure) {
		step_onto(adaptive, 0);
		return;
	}
	adaptive->held++;
	if (adaptive->rung > 0 && bytes < adaptive->base_bytes)
		adaptive->base_bytes = bytes;
	if (adaptive->rung > 0 && !is_within(adaptive->base_bytes, bytes)) {
		step_onto(adaptive, 0);
		if (adaptive->patience < MT_ADAPTIVE_ROUNDS_LONGEST)
			adaptive->patience *= 2;
	} else if (adaptive->rung < LAST_RUNG) {
		climb(adaptive);
	} else if (adaptive->held >= MT_ADAPTIVE_ROUNDS_LONGEST) {
		adaptive->patience = FIRST_PATIENCE;
		adaptive->held = MT_ADAPTIVE_ROUNDS_LONGEST;
	}
}
