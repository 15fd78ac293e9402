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
 * libc keeps inside the thread. Once, while the heap starts. Returns false if none of them is
 * left. */
bool mt_jemalloc_take_key(void);

/* Initialises it, by its first allocation. Returns NULL, or the reason, a text that is never freed,
 * if that fails or jemalloc is not what the shim was written for: it initialises only once, and
 * cannot be used in this process. */
const char *mt_jemalloc_begins(void);

#endif
