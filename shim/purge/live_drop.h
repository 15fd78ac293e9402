/* purge/live_drop.h -- detects drops of live bytes, of the heap or of device memory. Pure: owns no
 * state but struct mt_live_drop. Only the worker thread may call. Takes no lock.
 *
 * A drop: live bytes are 20 % below their peak in two samples. A drop ends a round if live bytes
 * had risen by a quarter since the last round. So a fall in stages is one round, and so is a fall
 * of heap and device together. MT_ROUND=auto ends rounds by this. */
#ifndef MT_PURGE_LIVE_DROP_H
#define MT_PURGE_LIVE_DROP_H

#include <stdbool.h>
#include <stdint.h>

/* All 0 at first. */
struct mt_live_drop {
	uint64_t peak_bytes;
	/* live bytes at the last drop, or when the other kind of memory ended a round */
	uint64_t base_bytes;
	uint32_t low_samples;
	bool risen; /* by a quarter above base_bytes */
};

/* Adds a sample. smallest_bytes: a smaller peak has no drops. Returns true if this sample
 * completes a drop; *out_round is then whether the drop ends a round, else it is not written. */
bool mt_live_drop_update(struct mt_live_drop *live_drop, uint64_t live_bytes,
			 uint64_t smallest_bytes, bool *out_round);

/* Notes that the other kind of memory ended a round: the rest of this fall belongs to it. */
void mt_live_drop_end_round(struct mt_live_drop *live_drop, uint64_t live_bytes);

#endif
