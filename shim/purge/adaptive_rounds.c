#include "purge/adaptive_rounds.h"

#include <string.h>

#include "sys/os.h"

#define FIRST_PATIENCE 4
#define FLAT_BYTES     (8 * MT_MIB)
#define FLAT_SHARE     50 /* a fiftieth: 2 % */

static const uint64_t steps[] = {1, 2, 5};
#define LAST_RUNG (sizeof(steps) / sizeof(steps[0]) - 1)

void mt_ladder_start(struct mt_ladder *ladder)
{
	memset(ladder, 0, sizeof(*ladder));
	ladder->patience = FIRST_PATIENCE;
}

uint64_t mt_ladder_step(const struct mt_ladder *ladder)
{
	return steps[ladder->rung];
}

static bool is_within(uint64_t low, uint64_t high)
{
	uint64_t most = low / FLAT_SHARE > FLAT_BYTES ? low / FLAT_SHARE : FLAT_BYTES;

	return high - low <= most;
}

/* Of the last `patience` round ends; *out_low is the lowest of them. */
static bool is_flat(const struct mt_ladder *ladder, uint64_t *out_low)
{
	uint64_t low = UINT64_MAX;
	uint64_t high = 0;

	for (uint64_t i = ladder->count - ladder->patience; i < ladder->count; i++) {
		uint64_t bytes = ladder->ends[i % MT_LADDER_LONGEST];

		low = bytes < low ? bytes : low;
		high = bytes > high ? bytes : high;
	}
	*out_low = low;
	return is_within(low, high);
}

static void step_onto(struct mt_ladder *ladder, uint32_t rung)
{
	ladder->rung = rung;
	ladder->held = 0;
}

static void climb(struct mt_ladder *ladder)
{
	uint64_t low;

	if (ladder->held < ladder->patience || !is_flat(ladder, &low))
		return;
	if (ladder->rung == 0)
		ladder->base_bytes = low;
	step_onto(ladder, ladder->rung + 1);
}

void mt_ladder_round(struct mt_ladder *ladder, uint64_t bytes, bool pressure)
{
	ladder->ends[ladder->count++ % MT_LADDER_LONGEST] = bytes;
	if (pressure) {
		step_onto(ladder, 0);
		return;
	}
	ladder->held++;
	if (ladder->rung > 0 && bytes < ladder->base_bytes)
		ladder->base_bytes = bytes;
	if (ladder->rung > 0 && !is_within(ladder->base_bytes, bytes)) {
		step_onto(ladder, 0);
		if (ladder->patience < MT_LADDER_LONGEST)
			ladder->patience *= 2;
	} else if (ladder->rung < LAST_RUNG) {
		climb(ladder);
	} else if (ladder->held >= MT_LADDER_LONGEST) {
		ladder->patience = FIRST_PATIENCE;
		ladder->held = MT_LADDER_LONGEST;
	}
}
