/* heap/jemalloc_event.h -- calls a function after every step_bytes that a thread allocates, in
 * place of jemalloc's event that prints statistics. Does nothing with a version of jemalloc that
 * lacks the event (jemalloc.mk looks). */
#ifndef MT_HEAP_JEMALLOC_EVENT_H
#define MT_HEAP_JEMALLOC_EVENT_H

#include <stdint.h>

/* Before jemalloc's first use. handler: called by each thread after so many bytes that it has
 * allocated, once its block is made, with no lock of jemalloc's held. Never called by a version
 * that has no such events (before 5.3). */
void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void));

#endif
