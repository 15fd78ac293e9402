/* purge/refill.h -- memory that a purge returned, and that the kernel has made resident again:
 * khugepaged fills the holes of a huge page, and no figure of the allocator shows it. Pure: owns
 * nothing. The caller protects the state. */
#ifndef MT_PURGE_REFILL_H
#define MT_PURGE_REFILL_H

#include <stdbool.h>
#include <stdint.h>

#include "purge/policy.h"

struct mt_refill {
	uint64_t floor_bytes;   /* lowest resident bytes that are neither live nor dirty; 0: none */
	uint64_t not_before_ns; /* the next look, and how long the last wait was */
	uint64_t wait_ns;
};

/* Returns whether resident bytes that are neither live nor dirty have risen by more than the
 * threshold since the last purge. dirty_bytes: as last measured. */
bool mt_refill_is_suspected(struct mt_refill *refill, const struct mt_snapshot *now,
			    uint64_t dirty_bytes, uint64_t threshold_bytes);

/* Notes any purge: memory is compared with this moment. */
void mt_refill_note_purge(struct mt_refill *refill, const struct mt_snapshot *after);

/* Notes a look, and whether it helped: a purge returned much. Looks that do not help come seldom,
 * up to once an hour. */
void mt_refill_note_look(struct mt_refill *refill, const struct mt_snapshot *after, bool helped);

#endif
