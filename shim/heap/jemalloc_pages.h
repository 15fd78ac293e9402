/* heap/jemalloc_pages.h -- how many pages jemalloc keeps free and resident, without its epoch; and
 * their return. The epoch gathers every figure of every arena under its locks: 0.45 ms at 8 arenas
 * and 5 ms at 512, once caches are cold. The one figure that the worker wants is kept by each arena
 * in plain atomic counters, and an internal function of jemalloc adds them up without any lock. So
 * any thread may ask, also from inside malloc. It is no part of jemalloc's interface: versions that
 * jemalloc.mk does not know lack it, and there the epoch is what there is. Any thread, but for the
 * figures by size class, which have one caller at a time (backend.h). */
#ifndef MT_HEAP_JEMALLOC_PAGES_H
#define MT_HEAP_JEMALLOC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/backend.h"
#include "heap/jemalloc_internal.h"
#include "sys/attr.h"

/* ---- extents ---- */

/* How jemalloc 5.3 describes a range of pages: the beginning of struct edata_s,
 * include/jemalloc/internal/edata.h, and the leaf of its tree by address that names the extent,
 * include/jemalloc/internal/rtree.h. Takes no lock and never allocates, except where a leaf is
 * made. */

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

/* Returns the leaf of the page at this address; 0 if there is none, or if jemalloc's version is not
 * known. Any thread. The extent may change at once if the caller does not own it; its memory stays
 * mapped. */
uint64_t mt_jemalloc_extent_leaf(const void *address);

/* Makes the leaf, for all of its GB of addresses. thread: jemalloc's, of the caller. Returns
 * false if there is no memory for it, which is 4 MB of address space. Takes locks of jemalloc's
 * that extent_register takes. */
bool mt_jemalloc_extent_make_leaf(void *thread, const void *address);

#pragma GCC visibility pop

/* ---- of an extent that the caller owns ---- */

static inline uint64_t mt_jemalloc_extent_whole_pages(uint64_t value)
{
	return value & ~(mt_jemalloc_page_bytes() - 1);
}

/* Returns where the page of an address begins. */
static inline char *mt_jemalloc_page_of(char *address)
{
	return address - (uintptr_t)address % mt_jemalloc_page_bytes();
}

static inline char *mt_jemalloc_extent_begin(const struct mt_extent *extent)
{
	return mt_jemalloc_page_of(extent->address);
}

static inline size_t mt_jemalloc_extent_bytes(const struct mt_extent *extent)
{
	return mt_jemalloc_extent_whole_pages(extent->bytes);
}

/* Fills dirty_bytes and active_bytes alone, pages that a purge is about to return among the dirty
 * ones; false before jemalloc has begun, without the counters, or if the program has arenas of its
 * own, which may vanish at any time. */
bool mt_jemalloc_pages(struct mt_heap_figures *out);

/* Returns how many bytes of one arena, as jemalloc's functions pass it, lie free and resident.
 * UINT64_MAX if the counters are not there. Any thread, also inside jemalloc. */
uint64_t mt_jemalloc_pages_free_bytes(void *arena);

/* Returns the free pages of one arena to the kernel. Under the purge lock. */
void mt_jemalloc_purge_arena(unsigned int index);

/* Returns what an arena had purged and kept mapped at the last epoch. Under the purge lock. */
uint64_t mt_jemalloc_retained_bytes(unsigned int index);

/* Returns how many arenas there are. */
unsigned int mt_jemalloc_arenas_count(void);

/* As mt_jemalloc_purge_arena, by a thread of the program, also from inside malloc: takes the purge
 * lock, and does nothing if that takes longer than 10 ms. */
void mt_jemalloc_purge_arena_soon(unsigned int index);

/* The parent's purge is not under way here. */
void mt_jemalloc_pages_fork_child(void);

/* See backend.h: the arenas with most free pages first. Without the counters, all arenas. */
enum mt_reclaimed mt_jemalloc_reclaim(uint64_t keep_bytes, uint64_t patience_ns);

/* Counts live blocks by size class, including those in the threads' caches. Returns how many
 * classes it has written, up to `most`. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* The sums of live blocks of least_bytes and more, as of the last epoch. least_bytes: 32 KiB or
 * more, which no thread caches. */
void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes);

/* ---- the move of large blocks ---- */

/* Realloc of large blocks that grow. jemalloc would copy such a block and keep the pages of the old
 * one. Here the kernel moves the pages (mremap(2)), as it does for libc. If it cannot, each piece
 * of the old block is returned to the kernel once it is copied. Any thread; waits up to 10 ms for
 * the purge lock. Never holds a lock of jemalloc's. */

/* bytes: smaller blocks are left to jemalloc, as libc copies those that it does not map */
#define MT_JEMALLOC_MOVE_LEAST (128u << 10)
/* bytes: larger blocks begin at a page; of smaller ones the holes are skipped in a copy */
#define MT_JEMALLOC_PAGE_LEAST (1u << 20)
/* bytes: of smaller ones only those of which less than half is resident; a copy is faster */
#define MT_JEMALLOC_MOVE_ALWAYS (4u << 20)

/* Grows a large block in place if jemalloc can. Returns whether it must be moved instead. */
bool mt_jemalloc_is_move(void *ptr, size_t bytes);

/* realloc of such a block. Returns NULL with errno ENOMEM if there is no memory; the block then
 * stays as it was. */
void *mt_jemalloc_move(void *ptr, size_t bytes);

static inline bool mt_jemalloc_moves(void *ptr, size_t bytes)
{
	return mt_unlikely(bytes > MT_JEMALLOC_MOVE_LEAST) && ptr &&
	       mt_jemalloc_is_move(ptr, bytes);
}

#endif
