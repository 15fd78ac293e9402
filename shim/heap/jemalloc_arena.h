/* heap/jemalloc_arena.h -- which of jemalloc's arenas serves large blocks. Those of all threads
 * come from one arena (oversize_threshold): otherwise each thread keeps free pages that no other
 * can use. It is the first thread's own, whose small blocks use the same free pages. Owns that
 * choice. */
#ifndef MT_HEAP_JEMALLOC_ARENA_H
#define MT_HEAP_JEMALLOC_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "sys/attr.h"

/* Whether the calling thread's last extent was not resident: the heap grows. jemalloc_unmap.c sets
 * it. */
extern MT_TLS bool mt_jemalloc_thread_grows;

/* Once, by the thread that starts jemalloc, before another uses it. Does nothing if a setting
 * of the user has disabled the arena for large blocks, or with a version of jemalloc whose
 * variables are others. */
void mt_jemalloc_arena_begin(void);

/* Returns jemalloc's first arena. NULL before mt_jemalloc_arena_begin, or if this version of
 * jemalloc does not show it. */
void *mt_jemalloc_first_arena(void);

/* In a forked child, whose only thread is the first again. */
void mt_jemalloc_arena_fork_child(void);

/* Reports large blocks that are freed, or shrunk in place by realloc. libc returns such memory to
 * the kernel at once; jemalloc keeps the pages as dirty ones. */

/* bytes: less is not worth a look at the limit */
#define MT_JEMALLOC_LARGE_LEAST (2u << 20)

/* Before jemalloc begins. Large blocks are of size classes in every version, unless a setting of
 * the user says otherwise. freed: called by the thread that has freed such a block, or whose
 * realloc brings the bytes cut off since the last call to as many, with none of jemalloc's locks
 * held. Never called by a version of jemalloc whose functions are others. */
void mt_jemalloc_large_use(void (*freed)(void));

/* Once, by the thread that starts jemalloc, before another uses it: finds out how large blocks are
 * told. Frees one of 128 kB if the version of jemalloc has no function for that. */
void mt_jemalloc_large_begin(void);

#endif
