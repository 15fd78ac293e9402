/* heap/jemalloc_thread.h -- what jemalloc does for a thread as it allocates and frees. Any thread,
 * unless a comment says otherwise. Takes no lock. */
#ifndef MT_HEAP_JEMALLOC_THREAD_H
#define MT_HEAP_JEMALLOC_THREAD_H

#include <stdint.h>

/* Calls a function after every step_bytes that a thread allocates, in
 * place of jemalloc's event that prints statistics. Does nothing with a version of jemalloc that
 * lacks the event (jemalloc.mk looks). */

/* Before jemalloc's first use. handler: called by each thread after so many bytes that it has
 * allocated, once its block is made, with no lock of jemalloc's held. Never called by a version
 * that has no such events (before 5.3). */
void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void));

/* Empties the cache of the calling thread. */
void mt_jemalloc_flush_thread(void);

#endif
