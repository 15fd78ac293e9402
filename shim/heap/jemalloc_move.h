/* heap/jemalloc_move.h -- large blocks that grow. jemalloc copies such a block into a new one, and
 * keeps the old one's pages. Here the kernel moves the pages (mremap), as it does for libc. Where
 * it cannot, each piece of the old block goes back to the kernel once it is copied. Any thread;
 * waits up to 10 ms for the purge lock. Holds no lock of jemalloc's. */
#ifndef MT_HEAP_JEMALLOC_MOVE_H
#define MT_HEAP_JEMALLOC_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#include "sys/attr.h"

/* bytes: smaller blocks are left to jemalloc */
#define MT_JEMALLOC_MOVE_LEAST (4u << 20)

/* The block is large, and cannot grow in place; where it can, it has. */
bool mt_jemalloc_is_move(void *ptr, size_t bytes);

/* realloc of such a block. NULL with errno ENOMEM: there is no memory, and the block is as it was.
 */
void *mt_jemalloc_move(void *ptr, size_t bytes);

static inline bool mt_jemalloc_moves(void *ptr, size_t bytes)
{
	return mt_unlikely(bytes > MT_JEMALLOC_MOVE_LEAST) && ptr &&
	       mt_jemalloc_is_move(ptr, bytes);
}

#endif
