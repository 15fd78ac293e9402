/* heap/jemalloc_counters.h -- the bytes that jemalloc counts for each thread. Owns where they lie.
 * Any thread, unless a comment says otherwise. Takes no lock, never allocates. */
#ifndef MT_HEAP_JEMALLOC_COUNTERS_H
#define MT_HEAP_JEMALLOC_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Finds where the counters lie. On the thread that has just begun jemalloc: asking enters a thread
 * into jemalloc's list. */
void mt_jemalloc_counters_begin(void);

/* jemalloc announces the calling thread, by this address. */
void mt_jemalloc_counters_note_thread(const void *counters);
bool mt_jemalloc_counters_have_thread(void);

/* Reads what the calling thread has allocated and freed so far, in bytes. Returns false if it
 * has done neither, or if jemalloc does not say. */
bool mt_jemalloc_own_counters(uint64_t *out_allocated, uint64_t *out_freed);

/* Returns whether the calling thread has allocated, so that jemalloc cleans up after it. It does
 * not for a thread that only frees, such as one in whose end libc frees the memory of other
 * threads: a call of mallctl would enter that thread into a list that it never leaves. */
bool mt_jemalloc_thread_has_allocated(void);

#pragma GCC visibility pop

#endif
