/* heap/jemalloc_arena.h -- which of jemalloc's arenas serves large blocks. Those of all threads
 * come from one arena (oversize_threshold): otherwise each thread keeps free pages that no other
 * can use. It is the first thread's own, whose small blocks use the same free pages. Owns that
 * choice. */
#ifndef MT_HEAP_JEMALLOC_ARENA_H
#define MT_HEAP_JEMALLOC_ARENA_H

#include <stddef.h>

/* Once, by the thread that starts jemalloc, before another uses it. Does nothing where a setting
 * of the user has disabled the arena for large blocks, or with a version of jemalloc whose
 * variables are others. */
void mt_jemalloc_arena_begin(void);

/* Returns jemalloc's first arena. NULL before mt_jemalloc_arena_begin, or where
 * this version of jemalloc does not show it. */
void *mt_jemalloc_first_arena(void);

/* In a forked child, whose only thread is the first again. */
void mt_jemalloc_arena_fork_child(void);

/* Returns the arena that a block comes from: `arena` where that is small, or where the program has
 * arenas of its own. bytes: of the block. Any thread, inside jemalloc. */
void *mt_jemalloc_arena_of(void *arena, size_t bytes);

#endif
