/* heap/jemalloc_pages.h -- how many pages jemalloc keeps free and resident, without its epoch; and
 * their return. The epoch gathers every figure of every arena under its locks: 0.45 ms at 8 arenas
 * and 5 ms at 512, once caches are cold. The one figure that the worker wants is kept by each arena
 * in plain atomic counters, and an internal function of jemalloc adds them up without any lock. So
 * any thread may ask, also from inside malloc. It is no part of jemalloc's interface: versions that
 * jemalloc.mk does not know lack it, and there the epoch is what there is. mt_jemalloc_pages and
 * mt_jemalloc_reclaim: any thread; the others: one caller at a time (backend.h). */
#ifndef MT_HEAP_JEMALLOC_PAGES_H
#define MT_HEAP_JEMALLOC_PAGES_H

#include <stdbool.h>

#include "heap/backend.h"

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

/* The same by a thread of the program, also from inside malloc: takes the purge lock, and does
 * nothing if that takes longer than 10 ms. */
void mt_jemalloc_purge_arena_soon(unsigned int index);

/* The parent's purge is not under way here. */
void mt_jemalloc_pages_fork_child(void);

/* See backend.h: the arenas with most free pages first. Without the counters, all arenas. */
enum mt_reclaimed mt_jemalloc_reclaim(uint64_t keep_bytes, uint64_t patience_ns);

/* Counts live blocks by size class, including those in the threads' caches.
 * Returns how many classes it has written, up to `most`. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* The sums of live blocks of least_bytes and more, as of the last epoch. least_bytes: 32 KiB or
 * more, which no thread caches. */
void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes);

#endif
