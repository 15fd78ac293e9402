#include "purge/live_drop.h"

#include "sys/saturating.h"
#include "sys/attr.h"

#define LOW_SAMPLES 2

/* By a quarter of the base, but at least a quarter of the smallest peak: the base of a device is
 * often close to 0. */
static bool has_risen(const struct mt_live_drop *live_drop, uint64_t live_bytes,
		      uint64_t smallest_bytes)
{
	uint64_t min_bytes = mt_max_u64(live_drop->base_bytes, smallest_bytes);

	return live_bytes > live_drop->base_bytes + min_bytes / 4;
}

bool mt_live_drop_update(struct mt_live_drop *live_drop, uint64_t live_bytes,
			 uint64_t smallest_bytes, bool *out_round)
{
	uint64_t peak = live_drop->peak_bytes;

	if (has_risen(live_drop, live_bytes, smallest_bytes))
		live_drop->risen = true;
	if (live_bytes > peak)
		live_drop->peak_bytes = live_bytes;
	mt_assert(live_drop->peak_bytes >= live_bytes);
	if (peak < smallest_bytes || live_bytes > peak - peak / 5) {
		live_drop->low_samples = 0;
		return false;
	}
	if (++live_drop->low_samples < LOW_SAMPLES)
		return false;
	*out_round = live_drop->risen;
	live_drop->risen = false;
	live_drop->low_samples = 0;
	live_drop->peak_bytes = live_bytes; /* the next drop starts from here */
	live_drop->base_bytes = live_bytes;
	return true;
}

void mt_live_drop_end_round(struct mt_live_drop *live_drop, uint64_t live_bytes)
{
	live_drop->risen = false;
	live_drop->base_bytes = live_bytes;
}
