/* heap/jemalloc_api.h -- the embedded jemalloc's own functions, as jemalloc.mk renames them, and
 * the members of the heap family that it lacks under the same prefix. */
#ifndef MT_HEAP_JEMALLOC_API_H
#define MT_HEAP_JEMALLOC_API_H

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

/* Internal to jemalloc 5: src/arena.c, src/jemalloc.c, src/ctl.c, src/rtree.c. Weak: another
 * version may lack them. */
extern char je_arena_emap_global[] __attribute__((weak, visibility("hidden")));
extern void *je_arenas[] __attribute__((weak));
extern unsigned int je_manual_arena_base __attribute__((weak));
extern unsigned int je_narenas_total_get(void) __attribute__((weak));
extern uint64_t *__real_je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context,
						      uintptr_t key, bool is_known,
						      bool make_missing)
	__attribute__((weak, visibility("hidden")));

#endif
