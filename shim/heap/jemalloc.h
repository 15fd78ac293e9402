/* heap/jemalloc.h -- the embedded jemalloc beyond the table of heap/backend.h. */
#ifndef MT_HEAP_JEMALLOC_H
#define MT_HEAP_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"

/* Its functions as the heap family, blocks from before the process woke up included. */
const struct mt_heap_ops *mt_jemalloc_ops(void);

/* Takes the thread key that jemalloc will need, before the program has taken those whose values
 * libc keeps inside the thread. Once, while the heap starts. Returns false where none of them is
 * left. */
bool mt_jemalloc_take_key(void);

/* The first allocation of all. False: it was refused, and jemalloc, which begins but once, is no
 * allocator here. */
bool mt_jemalloc_begins(void);

/* jemalloc_classes.c: live blocks by size class, those in the threads' caches included. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* jemalloc_prof.c: its heap profiler. begin: from the constructor, where `conf` lets it sample from
 * the start. */
extern const struct mt_heap_profiler mt_jemalloc_profiler;
void mt_jemalloc_prof_begin(const char *conf);

/* jemalloc_unwind.c: false where there is no unwinder to be had. Calls the loader: with no lock of
 * ours held, and not from inside the allocator. While the gate is closed nobody walks a stack;
 * closing waits for those who do. */
bool mt_jemalloc_find_unwinder(void);
void mt_jemalloc_prof_close_gate(void);
void mt_jemalloc_prof_open_gate(void);
void mt_jemalloc_prof_open_gate_in_child(void);

#endif
