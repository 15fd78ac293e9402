/* heap/glibc.h -- the size in the chunk headers of glibc's malloc. Source of the layout: glibc
 * malloc/malloc.c ("Vital statistics"): the word before a block holds the chunk's size with three
 * flag bits, of which 2 marks a chunk that was mapped on its own. malloc_usable_size answers size -
 * 8, or size - 16 for a mapped chunk. mt_glibc_check compares that with the real malloc_usable_size
 * before it is relied on: a tagged or hardened build may differ. */
#ifndef MT_HEAP_GLIBC_H
#define MT_HEAP_GLIBC_H

#include <stdbool.h>
#include <stddef.h>

static inline size_t mt_glibc_header(const void *ptr)
{
	return ((const size_t *)ptr)[-1];
}

static inline bool mt_glibc_is_mapped(size_t header)
{
	return header & 2;
}

static inline size_t mt_glibc_heap_usable(size_t header)
{
	return (header & ~(size_t)7) - sizeof(size_t);
}

static inline size_t mt_glibc_usable(const void *ptr)
{
	size_t header = mt_glibc_header(ptr);

	return mt_glibc_heap_usable(header) - (mt_glibc_is_mapped(header) ? sizeof(size_t) : 0);
}

/* Whether the header can be relied on here. */
bool mt_glibc_check(void);

#endif
