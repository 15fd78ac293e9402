/* backend/glibc.h -- glibc's malloc by its own second names, and the size in its chunk headers.
 * Source of the layout: glibc malloc/malloc.c ("Vital statistics"): the word before a block holds the chunk's size with
 * three flag bits, of which 2 marks a chunk that was mapped on its own. malloc_usable_size answers size - 8, or
 * size - 16 for a mapped chunk. mt_glibc_check compares that with the real malloc_usable_size before it is relied on:
 * a tagged or hardened build may differ. */
#ifndef MT_GLIBC_H
#define MT_GLIBC_H

#include <stdbool.h>
#include <stddef.h>

#define MT_GLIBC_NAMES(X)                                       \
	X(void *, malloc, (size_t size))                        \
	X(void *, calloc, (size_t count, size_t size))          \
	X(void *, realloc, (void *ptr, size_t size))            \
	X(void *, memalign, (size_t alignment, size_t size))    \
	X(void *, valloc, (size_t size))                        \
	X(void *, pvalloc, (size_t size))                       \
	X(void, free, (void *ptr))

/* Weak: musl has none of them. */
#define X(type, name, params) extern type __libc_##name params __attribute__((weak));
MT_GLIBC_NAMES(X)
#undef X

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
