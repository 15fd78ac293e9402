/* heap/jemalloc_extent.h -- how jemalloc 5.3 describes a range of pages: the beginning of struct
 * edata_s, include/jemalloc/internal/edata.h, and the leaf of its tree by address that names the
 * extent, include/jemalloc/internal/rtree.h. Takes no lock and never allocates, except where a
 * leaf is made. */
#ifndef MT_HEAP_JEMALLOC_EXTENT_H
#define MT_HEAP_JEMALLOC_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/jemalloc_conf.h"

struct mt_extent {
	uint64_t bits;
	char *address; /* a large block may begin anywhere in the first page */
	size_t bytes;  /* the bits below a page are something else */
	uint64_t others[5];
	uint64_t free_regions[]; /* of a slab: a bit for each region, set if it is free */
};

#define MT_EXTENT_ARENA_MASK 0xfffu /* of bits: the number of the arena */

/* A leaf: the address of the extent, with a sign, and flags below and above it. */
#define MT_LEAF_EXTENT(leaf)                                                                       \
	((struct mt_extent *)((uint64_t)((int64_t)((leaf) << 16) >> 16) & ~(uint64_t)127))

#pragma GCC visibility push(hidden)

/* Returns the leaf of the page at this address; 0 if there is none, or if jemalloc's version
 * is not known. Any thread. The extent may change at once if the caller does not own it; its memory
 * stays mapped. */
uint64_t mt_extent_leaf(const void *address);

/* Makes the leaf, for all of its GB of addresses. thread: jemalloc's, of the caller. Returns
 * false if there is no memory for it, which is 4 MB of address space. Takes locks of jemalloc's
 * that extent_register takes. */
bool mt_extent_make_leaf(void *thread, const void *address);

#pragma GCC visibility pop

/* ---- of an extent that the caller owns ---- */

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
