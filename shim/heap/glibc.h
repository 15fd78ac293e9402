/* heap/glibc.h -- glibc's malloc: its own functions under the names __libc_malloc and so on, and
 * the sizes in its chunk headers. Owns the addresses of those functions. Any thread may call. Takes
 * the gate of sys/loader.h, once. Never calls dlsym, never allocates.
 *
 * Source of the layout: glibc malloc/malloc.c ("Vital statistics"). The word before a block holds
 * the chunk's size with three flag bits; bit 2 marks a chunk with a mapping of its own.
 * malloc_usable_size returns size - 8, or for such a chunk size - 16, until glibc 2.43. */
#ifndef MT_HEAP_GLIBC_H
#define MT_HEAP_GLIBC_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"

static inline size_t mt_glibc_header(const void *ptr)
{
	return ((const size_t *)ptr)[-1];
}

static inline bool mt_glibc_is_mapped(size_t header)
{
	return header & 2;
}

/* Usable bytes of a chunk without a mapping of its own. */
static inline size_t mt_glibc_heap_usable(size_t header)
{
	return (header & ~(size_t)7) - sizeof(size_t);
}

/* By how many bytes less of a chunk with a mapping of its own is usable: 8; from glibc 2.43 on 0.
 * Written by the first call of mt_glibc_ops. */
extern size_t mt_glibc_mapped_less_bytes;

/* Usable bytes of any block of glibc's, once mt_glibc_ops was called. */
static inline size_t mt_glibc_usable(const void *ptr)
{
	size_t header = mt_glibc_header(ptr);

	return mt_glibc_heap_usable(header) -
	       (mt_glibc_is_mapped(header) ? mt_glibc_mapped_less_bytes : 0);
}

/* Returns glibc's malloc family, whatever stands before it in the order of symbols; NULL if the
 * process has no libc.so.6 with these names. Works before any relocation of the program, before
 * libc sets environ, and inside dlsym. */
const struct mt_heap_ops *mt_glibc_ops(void);

/* Calls glibc's mallopt(3). Does nothing if mt_glibc_ops returns NULL. */
void mt_glibc_mallopt(int parameter, int value);

/* Its M_TRIM_THRESHOLD before a program calls mallopt(3): DEFAULT_TRIM_THRESHOLD. */
#define MT_GLIBC_TRIM_THRESHOLD (128 << 10)

/* Calls glibc's malloc_trim(3). Returns its reply. */
int mt_glibc_trim(size_t pad);

/* Another allocator serves, and a block of glibc's from before was freed. Returns whether
 * mt_glibc_trim_old is due: after the first one, and after each MB. */
bool mt_glibc_note_old_free(size_t bytes);

/* Returns what lies free in glibc's heap to the kernel, if such blocks were freed since the last
 * call. Not if many pages are shared with forked processes: glibc writes to free blocks. Reads a
 * file after a fork. Keeps errno. */
void mt_glibc_trim_old(void);

/* Reads glibc's own figures: walks through the free chunks of each arena under its lock. Returns
 * false, and zeros, before glibc 2.33. A thread of the library holds the purge lock. */
bool mt_glibc_info(struct mt_mallinfo *out);

/* Allocates a few small blocks with `ops`. Returns whether their chunk headers tell the size that
 * malloc_usable_size returns: a build of glibc with tagged or hardened chunks may differ. */
bool mt_glibc_check(const struct mt_heap_ops *ops);

/* The backend for glibc's malloc. The caller provides ops. */
extern const struct mt_backend mt_glibc_backend;

#endif
