/* heap/jemalloc_names.h -- the embedded jemalloc's own functions, as jemalloc.mk renames them, and
 * the members of the heap family that it lacks under the same prefix. */
#ifndef MT_HEAP_JEMALLOC_NAMES_H
#define MT_HEAP_JEMALLOC_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/heap_entries.def"

#define X(type, name, params, args) type je_##name params;
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
#undef X

extern void (*je_malloc_message)(void *argument, const char *text);
void *je_mallocx(size_t size, int flags);
size_t je_xallocx(void *ptr, size_t size, size_t extra, int flags);
int je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
int je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
int je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new,
		    size_t new_bytes);
void je_malloc_stats_print(void (*write)(void *, const char *), void *argument,
			   const char *options);

/* jemalloc.c: how many arenas there are. */
unsigned int mt_jemalloc_arenas_count(void);

#endif
