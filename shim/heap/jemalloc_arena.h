/* heap/jemalloc_arena.h -- which of jemalloc's arenas serves large blocks. The blocks of one thread
 * come from its own arena, whose free pages serve them first. Once a second thread allocates large
 * blocks, those of all threads come from one arena (oversize_threshold): otherwise each thread
 * keeps free pages that no other can use. Owns one latch. */
#ifndef MT_HEAP_JEMALLOC_ARENA_H
#define MT_HEAP_JEMALLOC_ARENA_H

/* Once, by the thread that starts jemalloc, before another uses it. Does nothing where a setting
 * of the user has disabled the arena for large blocks, or with a version of jemalloc whose
 * variables are others. */
void mt_jemalloc_arena_begin(void);

/* In a forked child, whose only thread is the first again. */
void mt_jemalloc_arena_fork_child(void);

#endif
