/* heap/alignment.h -- what libc's memalign and aligned_alloc make of an alignment. Pure; any
 * thread. */
#ifndef MT_HEAP_ALIGNMENT_H
#define MT_HEAP_ALIGNMENT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/libc.h"

static inline bool mt_alignment_is_power(size_t alignment)
{
	return alignment && !(alignment & (alignment - 1));
}

/* The power of two that memalign rounds up to; 0: it refuses with EINVAL. */
static inline size_t mt_alignment_rounded(size_t alignment)
{
	size_t power = sizeof(void *);

	if (alignment > SIZE_MAX / 2 + 1)
		return 0;
	while (power < alignment)
		power <<= 1;
	return power;
}

/* aligned_alloc was memalign by another name until glibc 2.38, which refuses what is no power of
 * two with EINVAL. */
static inline bool mt_alignment_is_refused(size_t alignment)
{
	return !mt_alignment_is_power(alignment) && mt_libc_minor() >= 38;
}

/* libc's aligned_alloc and posix_memalign, by libc's memalign. */
static inline void *mt_aligned_alloc_by(void *(*aligned)(size_t, size_t), size_t alignment,
					size_t size)
{
	if (mt_alignment_is_refused(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return aligned(alignment, size);
}

static inline int mt_posix_memalign_by(void *(*aligned)(size_t, size_t), void **out,
				       size_t alignment, size_t size)
{
	void *fresh;

	if (alignment < sizeof(void *) || !mt_alignment_is_power(alignment))
		return EINVAL;
	fresh = aligned(alignment, size);
	if (!fresh)
		return ENOMEM;
	*out = fresh;
	return 0;
}

#endif
