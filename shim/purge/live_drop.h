/* purge/live_drop.h -- falls of live bytes: of the heap, and of device memory. Pure. Worker thread
 * only.
 *
 * A drop of live bytes: live bytes are 20 % under their peak for two looks. It ends a round if they
 * have risen by a quarter since the last round: a fall in stages is one round, and so is one of
 * heap and device together, whichever comes first. */
#ifndef MT_PURGE_LIVE_DROP_H
#define MT_PURGE_LIVE_DROP_H

#include <stdbool.h>
#include <stdint.h>

/* All 0 to begin with. */
struct mt_live_drop {
	uint64_t peak_bytes;
	/* live at the last drop of live bytes, or when the other kind has ended a round */
	uint64_t base_bytes;
	uint32_t low_samples;
	bool risen; /* by a quarter since then */
};

/* What is never held more of than smallest_bytes has no drops of live bytes. One look; true when it
 * completes a drop of live bytes. *out_round, written only then: whether it ends a round. */
bool mt_live_drop_update(struct mt_live_drop *live_drop, uint64_t live_bytes,
			 uint64_t smallest_bytes, bool *out_round);

/* Another kind has ended a round: what follows of this fall belongs to it. */
void mt_live_drop_end_round(struct mt_live_drop *live_drop, uint64_t live_bytes);

#endif
