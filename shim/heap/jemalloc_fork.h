/* heap/jemalloc_fork.h -- jemalloc's fork handlers, and its waits for a mutex. A signal handler
 * that has interrupted jemalloc may fork: what the calling thread holds then is not waited for.
 * Owns the three handlers, and the list of such mutexes of the fork under way, of which there is
 * one: it holds the publish lock. Never allocates. */
#ifndef MT_HEAP_JEMALLOC_FORK_H
#define MT_HEAP_JEMALLOC_FORK_H

#include <stdbool.h>

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
