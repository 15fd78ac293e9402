/* sys/saturating.h -- arithmetic on unsigned counts and bytes that stays inside the type: a result
 * below 0 is 0, and one above UINT64_MAX is UINT64_MAX. Also minimum and maximum. Any thread may
 * call. No lock, no state. */
#ifndef MT_SYS_SATURATING_H
#define MT_SYS_SATURATING_H

#include <stdint.h>

/* a - b, or 0 if b is larger. */
static inline uint64_t mt_sat_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* a + b, or UINT64_MAX if the sum does not fit. */
static inline uint64_t mt_sat_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The absolute difference of a and b. */
static inline uint64_t mt_abs_diff(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static inline uint64_t mt_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t mt_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline int64_t mt_min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t mt_max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
