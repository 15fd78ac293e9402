/* entry/heap.h -- how the exported heap family is served; set by life.c, read by entry/heap.c at each call. */
#ifndef MT_ENTRY_HEAP_H
#define MT_ENTRY_HEAP_H

#include <stdbool.h>

#include "backend/backend.h"

/* The same functions, which also know what to do with a block of the boot arena. */
const struct mt_heap_ops *mt_late_ops(const struct mt_heap_ops *ops);

/* Serves every call from now on through these functions, by way of mt_late_ops where the boot arena was used. */
void mt_heap_serve(const struct mt_heap_ops *ops);

/* Serves them from the embedded jemalloc, by a direct jump unless it has just begun or grown. */
void mt_heap_serve_jemalloc(void);

/* The embedded jemalloc has grown: the next maker comes by the cold path, once. Async-signal-safe, lock-free. */
void mt_heap_note_growth(void);

/* Over the embedded jemalloc: until it is switched off, every maker comes by the cold path and each 512th of a
 * thread asks mt_life_watched. Some 10 instructions a call more. Any thread. */
void mt_heap_watch(bool on);

/* The exported malloc itself, whatever the name is bound to in this process. */
const void *mt_heap_own_malloc(void);

/* Functions that count what passes through them, over glibc; and functions that pass on, over other allocators. Both
 * look at growth now and then. */
const struct mt_heap_ops *mt_counted_ops(void);
const struct mt_heap_ops *mt_uncounted_ops(void);

#endif
