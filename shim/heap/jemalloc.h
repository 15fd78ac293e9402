/* heap/jemalloc.h -- the embedded jemalloc, apart from the table of heap/backend.h. Any thread,
 * unless a comment says otherwise. */
#ifndef MT_HEAP_JEMALLOC_H
#define MT_HEAP_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"

/* Returns its functions, which also take blocks from before the process woke up. */
const struct mt_heap_ops *mt_jemalloc_ops(void);

/* Takes the thread key that jemalloc will need, before the program has taken those whose values
 * libc keeps inside the thread. Once, while the heap starts. Returns false where none of them is
 * left. */
bool mt_jemalloc_take_key(void);

/* Initialises it, by its first allocation. Returns NULL, or the reason, a text that is never freed,
 * where that fails or jemalloc is not what the shim was written for: it initialises only once, and
 * cannot be used in this process. */
const char *mt_jemalloc_begins(void);

/* Empties the cache of the calling thread. */
void mt_jemalloc_flush_thread(void);

/* jemalloc_pages.c: counts live blocks by size class, including those in the threads' caches.
 * Returns how many classes it has written, up to `most`. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* The sums of live blocks of least_bytes and more, as of the last epoch. least_bytes: 32 KiB or
 * more, which no thread caches. */
void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes);

/* jemalloc_prof.c: its heap profiler. mt_jemalloc_prof_begin runs in the constructor, and switches
 * sampling on where `conf` says so. */
extern const struct mt_heap_profiler mt_jemalloc_profiler;
void mt_jemalloc_prof_begin(const char *conf);

#endif
