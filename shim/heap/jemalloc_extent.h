/* heap/jemalloc_extent.h -- how jemalloc 5.3 describes a range of pages: the beginning of struct
 * edata_s, include/jemalloc/internal/edata.h. Inline only. Any thread that owns the extent. */
#ifndef MT_HEAP_JEMALLOC_EXTENT_H
#define MT_HEAP_JEMALLOC_EXTENT_H

#include <stddef.h>
#include <stdint.h>

#include "heap/jemalloc_check.h"

struct mt_extent {
	uint64_t bits;
	char *address; /* a large block may begin anywhere in the first page */
	size_t bytes;  /* the bits below a page are something else */
	uint64_t others[5];
	uint64_t free_regions[]; /* of a slab: a bit for each region, set where it is free */
};

static inline uint64_t mt_extent_whole_pages(uint64_t value)
{
	return value & ~(mt_jemalloc_page_bytes() - 1);
}

static inline char *mt_extent_begin(const struct mt_extent *extent)
{
	return extent->address - (uintptr_t)extent->address % mt_jemalloc_page_bytes();
}

static inline size_t mt_extent_bytes(const struct mt_extent *extent)
{
	return mt_extent_whole_pages(extent->bytes);
}

#endif
