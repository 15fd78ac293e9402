/* heap/ranges.h -- a small sorted set of address ranges, which may come to contain more than was
 * added: if it is full, the new range is joined with its nearest neighbour. For uses where too
 * much costs time, and too little is a fault. Owns no state, takes no lock, never allocates. The
 * caller protects each set by a lock. */
#ifndef MT_HEAP_RANGES_H
#define MT_HEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define MT_RANGES_MOST 256u

/* Zeroed: empty. Ranges are ascending and do not touch. */
struct mt_ranges {
	uint32_t count;
	struct {
		uintptr_t begin, end;
	} at[MT_RANGES_MOST];
};

/* begin, end: of a range that is not empty. */
void mt_ranges_add(struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* If the set is full, the middle of a range stays. */
void mt_ranges_remove(struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* Returns whether the set has an address of the range. */
bool mt_ranges_overlap(const struct mt_ranges *set, uintptr_t begin, uintptr_t end);

/* Cuts from both ends of the range what the set does not have. Returns false, and changes nothing,
 * if it has none of it. */
bool mt_ranges_clip(const struct mt_ranges *set, uintptr_t *begin, uintptr_t *end);

#endif
