/* backend/jemalloc.h -- the embedded jemalloc's own names, as renamed by jemalloc.mk, and the members of the heap
 * family that it lacks under the same prefix. For entry/heap.c, which jumps to them directly, and jemalloc.c. */
#ifndef MT_JEMALLOC_H
#define MT_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/heap_entries.def"

#define X(type, name, params, args) type je_##name params;
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

extern void (*je_malloc_message)(void *argument, const char *text);
int je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
int je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
int je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new, size_t new_bytes);
void je_malloc_stats_print(void (*write)(void *, const char *), void *argument, const char *options);

#endif
