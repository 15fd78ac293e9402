#include "purge/live_drop.h"

#define LOW_LOOKS 2

/* A quarter, and a quarter of the smallest peak where the base is next to nothing, as that of a device often is. */
static bool has_risen(const struct mt_trough *trough, uint64_t live_bytes, uint64_t smallest_bytes)
{
	uint64_t least = trough->base_bytes > smallest_bytes ? trough->base_bytes : smallest_bytes;

	return live_bytes > trough->base_bytes + least / 4;
}

bool mt_trough_look(struct mt_trough *trough, uint64_t live_bytes, uint64_t smallest_bytes, bool *out_round)
{
	uint64_t peak = trough->peak_bytes;

	if (has_risen(trough, live_bytes, smallest_bytes))
		trough->risen = true;
	if (live_bytes > peak)
		trough->peak_bytes = live_bytes;
	if (peak < smallest_bytes || live_bytes > peak - peak / 5) {
		trough->low_looks = 0;
		return false;
	}
	if (++trough->low_looks < LOW_LOOKS)
		return false;
	*out_round = trough->risen;
	trough->risen = false;
	trough->low_looks = 0;
	trough->peak_bytes = live_bytes; /* the next fall is counted from there */
	trough->base_bytes = live_bytes;
	return true;
}

void mt_trough_join(struct mt_trough *trough, uint64_t live_bytes)
{
	trough->risen = false;
	trough->base_bytes = live_bytes;
}
