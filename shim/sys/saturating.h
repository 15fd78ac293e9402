/* sys/saturating.h -- arithmetic on counts and bytes, which are unsigned: what would fall below
 * nothing is nothing. */
#ifndef MT_SYS_SATURATING_H
#define MT_SYS_SATURATING_H

#include <stdint.h>

/* By how much a lies above b; 0 where it does not. */
static inline uint64_t mt_sat_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

#endif
