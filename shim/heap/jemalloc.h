/* heap/jemalloc.h -- the embedded jemalloc's own names, as renamed by jemalloc.mk, and the members
 * of the heap family that it lacks under the same prefix. For heap/entries.c, which jumps to them
 * directly, and jemalloc.c. */
#ifndef MT_HEAP_JEMALLOC_H
#define MT_HEAP_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/backend.h"
#include "heap/heap_entries.def"

#define X(type, name, params, args) type je_##name params;
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

extern void (*je_malloc_message)(void *argument, const char *text);
void *je_mallocx(size_t size, int flags);
size_t je_xallocx(void *ptr, size_t size, size_t extra, int flags);
int je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
int je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
int je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new,
		    size_t new_bytes);
unsigned int mt_jemalloc_arenas_count(void);

/* The first allocation of all. False: it was refused, and jemalloc, which begins but once, is no
 * allocator here. */
bool mt_jemalloc_begins(void);

/* jemalloc_classes.c: live blocks by size class, those in the threads' caches included. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* jemalloc_prof.c: its heap profiler. begin: from the constructor, where `conf` lets it sample from
 * the start. */
extern const struct mt_heap_profiler mt_jemalloc_profiler;
void mt_jemalloc_prof_begin(const char *conf);

/* jemalloc_unwind.c: false where there is no unwinder to be had. Calls the loader: with no lock of
 * ours held, and not from inside the allocator. While the gate is closed nobody walks a stack;
 * closing waits for those who do. */
bool mt_jemalloc_find_unwinder(void);
void mt_jemalloc_prof_close_gate(void);
void mt_jemalloc_prof_open_gate(void);
void mt_jemalloc_prof_open_gate_in_child(void);

void je_malloc_stats_print(void (*write)(void *, const char *), void *argument,
			   const char *options);

#endif
