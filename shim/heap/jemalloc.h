/* heap/jemalloc.h -- the embedded jemalloc, apart from the table of heap/backend.h. Any thread,
 * unless a comment says otherwise. */
#ifndef MT_HEAP_JEMALLOC_H
#define MT_HEAP_JEMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/backend.h"
#include "heap/heap_entries.def"

/* Returns its functions, which also take blocks from before the process woke up. */
const struct mt_heap_ops *mt_jemalloc_ops(void);

/* Takes the thread key that jemalloc will need, before the program has taken those whose values
 * libc keeps inside the thread. Once, while the heap starts. Returns false if none of them is
 * left. */
bool mt_jemalloc_take_key(void);

/* Initialises it, by its first allocation. Returns NULL, or the reason, a text that is never freed,
 * if that fails or jemalloc is not what the shim was written for: it initialises only once, and
 * cannot be used in this process. */
const char *mt_jemalloc_begins(void);

/* Switches sampling of the heap profiler on if `conf` says so. In the constructor. */
void mt_jemalloc_prof_begin(const char *conf);

/* Sets the limit in bytes, also before jemalloc begins. From now on address space is returned, for
 * good; the limit decides how much may stay, and which extents are large enough. probe: mmap's
 * protection of a mapping that counts against the limit, by which a free looks how much is left, or
 * MT_JEMALLOC_NO_PROBE: what is reused stays. at_once: if the limit is new, purges all arenas
 * under the purge lock; else the next large free does. Returns whether it is new. */
#define MT_JEMALLOC_NO_PROBE (-1)
bool mt_jemalloc_unmap_use(size_t limit_bytes, int probe, bool at_once);

/* A process or thread begins that uses the thread-local storage of another one, which may sleep
 * meanwhile: from now on no cache is emptied. Any thread, async-signal-safe. */
void mt_jemalloc_caches_note_shared(void);

/* The program calls userfaultfd(2): a page of its own may wait for the very thread that allocates.
 * From now on no block of the program is read. Any thread, async-signal-safe. */
void mt_jemalloc_reuse_end(void);

/* Returns once the calling thread may use its cache. Any thread, async-signal-safe. Keeps errno. */
void mt_jemalloc_caches_wait(void);

/* pthread_atfork handlers. All signals are blocked. Prepare takes all mutexes of jemalloc. A mutex
 * that the calling thread holds already stays as it is in the parent, and is initialised in the
 * child like all others: the child, which may not allocate before it has returned from its signal
 * handler, goes on if the handler has interrupted it. */
void mt_jemalloc_fork_prepare(void);
void mt_jemalloc_fork_parent(void);
void mt_jemalloc_fork_child(void);

/* ---- its own functions ---- */

/* The embedded jemalloc's own functions, as jemalloc.mk renames them, and the members of the heap
 * family that it lacks under the same prefix. */

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
extern void je_arena_decay(void *thread, void *arena, bool is_background, bool all)
	__attribute__((weak));
extern unsigned int je_manual_arena_base __attribute__((weak));
extern unsigned int je_narenas_total_get(void) __attribute__((weak));
extern uint64_t *__real_je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context,
						      uintptr_t key, bool is_known,
						      bool make_missing)
	__attribute__((weak, visibility("hidden")));

#endif
