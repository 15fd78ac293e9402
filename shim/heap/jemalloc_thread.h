/* heap/jemalloc_thread.h -- what jemalloc does for a thread as it allocates and frees, and its fork
 * handlers. Any thread, unless a comment says otherwise. Takes no lock of the shim. */
#ifndef MT_HEAP_JEMALLOC_THREAD_H
#define MT_HEAP_JEMALLOC_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* Before jemalloc's first use. handler: called by each thread after so many bytes that it has
 * allocated, once its block is made, with no lock of jemalloc's held, in place of jemalloc's event
 * that prints statistics. Never called by a version that lacks the event (jemalloc.mk looks). */
void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void));

/* Before jemalloc's first use. handler: called by each thread after about so many bytes that it has
 * freed, with no lock of jemalloc's held. Never called by a version without that event. */
void mt_jemalloc_frees_use(void (*handler)(uint64_t freed_bytes));

/* Empties the cache of the calling thread. */
void mt_jemalloc_flush_thread(void);

/* ---- fork ---- */

/* jemalloc's fork handlers, and its waits for a mutex. A signal handler that has interrupted
 * jemalloc may fork: what the calling thread holds then is not waited for. Owns the three handlers,
 * and the list of such mutexes of the fork under way, of which there is one: it holds the publish
 * lock. Never allocates. */

/* Returns whether jemalloc has registered its handlers. */
bool mt_jemalloc_fork_has_handlers(void);

/* Forgets the handlers: jemalloc does not serve. */
void mt_jemalloc_fork_give_up(void);

/* pthread_atfork handlers. All signals are blocked. Prepare takes all mutexes of jemalloc. A mutex
 * that the calling thread holds already stays as it is in the parent, and is initialised in the
 * child like all others: the child, which may not allocate before it has returned from its signal
 * handler, goes on if the handler has interrupted it. */
void mt_jemalloc_fork_prepare(void);
void mt_jemalloc_fork_parent(void);
void mt_jemalloc_fork_child(void);

#endif
