/* heap/jemalloc_move.h -- realloc of large blocks that grow. jemalloc would copy such a block and
 * keep the pages of the old one. Here the kernel moves the pages (mremap(2)), as it does for libc.
 * If it cannot, each piece of the old block is returned to the kernel once it is copied. Any
 * thread; waits up to 10 ms for the purge lock. Never holds a lock of jemalloc's. */
#ifndef MT_HEAP_JEMALLOC_MOVE_H
#define MT_HEAP_JEMALLOC_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#include "sys/attr.h"

/* bytes: smaller blocks are left to jemalloc */
#define MT_JEMALLOC_MOVE_LEAST (1u << 20)
/* bytes: of smaller ones only those of which less than half is resident; a copy is faster */
#define MT_JEMALLOC_MOVE_ALWAYS (4u << 20)

/* Grows a large block in place if jemalloc can. Returns whether it must be moved instead. */
bool mt_jemalloc_is_move(void *ptr, size_t bytes);

/* realloc of such a block. Returns NULL with errno ENOMEM if there is no memory; the block then
 * stays as it was. */
void *mt_jemalloc_move(void *ptr, size_t bytes);

static inline bool mt_jemalloc_moves(void *ptr, size_t bytes)
{
	return mt_unlikely(bytes > MT_JEMALLOC_MOVE_LEAST) && ptr &&
	       mt_jemalloc_is_move(ptr, bytes);
}

#endif
