/* purge/live_drop.h -- falls of live bytes: of the heap, and of device memory. Pure. Reaper only.
 *
 * A trough: live bytes are 20 % under their peak for two looks. It ends a round if they have risen by a quarter since
 * the last round: a fall in stages is one round, and so is one of heap and device together, whichever comes first. */
#ifndef MT_TROUGH_H
#define MT_TROUGH_H

#include <stdbool.h>
#include <stdint.h>

/* All 0 to begin with. */
struct mt_trough {
	uint64_t peak_bytes;
	uint64_t base_bytes;      /* live at the last trough, or when the other kind has ended a round */
	uint32_t low_looks;
	bool risen;               /* by a quarter since then */
};

/* What is never held more of than smallest_bytes has no troughs. One look; true when it completes a trough. *out_round,
 * written only then: whether it ends a round. */
bool mt_trough_look(struct mt_trough *trough, uint64_t live_bytes, uint64_t smallest_bytes, bool *out_round);

/* Another kind has ended a round: what follows of this fall belongs to it. */
void mt_trough_join(struct mt_trough *trough, uint64_t live_bytes);

#endif
