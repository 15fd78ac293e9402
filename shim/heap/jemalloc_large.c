#include "heap/jemalloc_large.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"
#include "heap/jemalloc_arena.h"
#include "heap/jemalloc_check.h"
#include "heap/jemalloc_counters.h"
#include "heap/jemalloc_errors.h"
#include "heap/jemalloc_extent.h"
#include "heap/jemalloc_names.h"
#include "sys/attr.h"

/* What is tried at the start: more than a thread's cache takes. Below four pages jemalloc has no
 * large blocks. */
#define PROBE_BYTES (128u << 10)
#define PROBE_PAGES 8u

/* Internal to jemalloc 5: src/large.c. Its callers in other files come here instead (jemalloc.mk).
 * large_salloc is gone in 5.3.1. */
extern size_t je_large_salloc(void *thread, const void *extent)
	__attribute__((weak, visibility("hidden")));
extern void __real_je_large_dalloc(void *thread, void *extent) __attribute__((weak));
void __wrap_je_large_dalloc(void *thread, void *extent);
extern void *__real_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes,
				    size_t alignment, bool zero, void *cache, void *hook)
	__attribute__((weak));
void *__wrap_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes, size_t alignment,
			     bool zero, void *cache, void *hook);

/* The block that the start frees, or NULL; and whether its extent was read rightly: it is read
 * where large_salloc is missing. Written before another thread uses jemalloc. */
static const char *probe;
static bool is_extent_known;

/* src/jemalloc.c of 5.3.1: large blocks are of any number of pages, and each comes from a larger
 * mapping whose rest counts as dirty, though nobody has touched it. */
extern bool je_opt_disable_large_size_classes __attribute__((weak, visibility("hidden")));

static void (*on_freed)(void);
static _Atomic size_t shrunk_bytes; /* since the last call of on_freed; counter, no ordering */

void mt_jemalloc_large_use(void (*freed)(void))
{
	on_freed = freed;
	if (&je_opt_disable_large_size_classes)
		je_opt_disable_large_size_classes = false;
}

/* A large block may begin anywhere in its first page, and has a page more for that. */
static void try_extent(const struct mt_extent *extent)
{
	size_t bytes = je_malloc_usable_size((void *)(uintptr_t)probe);
	size_t read = mt_extent_bytes(extent);

	is_extent_known =
		(uintptr_t)mt_extent_begin(extent) == mt_extent_whole_pages((uintptr_t)probe) &&
		(read == bytes || read == bytes + mt_jemalloc_page_bytes());
}

void mt_jemalloc_large_begin(void)
{
	uint64_t bytes = PROBE_PAGES * mt_jemalloc_page_bytes();

	if (&je_large_salloc || !&__real_je_large_dalloc)
		return;
	probe = je_malloc(bytes > PROBE_BYTES ? bytes : PROBE_BYTES);
	je_free((void *)(uintptr_t)probe);
	probe = NULL;
	if (!is_extent_known)
		mt_log(MT_LOG_INFO, "jemalloc's extents are unknown: large blocks are returned at "
				    "the worker's ticks alone");
}

static size_t bytes_of(void *thread, const void *extent)
{
	if (&je_large_salloc)
		return je_large_salloc(thread, extent);
	if (mt_unlikely(probe != NULL))
		try_extent(extent);
	return is_extent_known ? mt_extent_bytes(extent) : 0;
}

void __wrap_je_large_dalloc(void *thread, void *extent)
{
	size_t bytes;

	mt_jemalloc_errors_check_large(extent);
	bytes = bytes_of(thread, extent);
	__real_je_large_dalloc(thread, extent);
	if (mt_unlikely(bytes >= MT_JEMALLOC_LARGE_LEAST) && on_freed &&
	    mt_jemalloc_thread_has_allocated())
		on_freed();
}

/* Blocks that realloc shrinks in place count together: libc returns what it cuts off each of them,
 * while it keeps freed blocks of the same size once it has seen one. */
void *__wrap_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes, size_t alignment,
			     bool zero, void *cache, void *hook)
{
	size_t held = je_malloc_usable_size(block);
	void *fresh = __real_je_large_ralloc(thread, mt_jemalloc_arena_of(arena, bytes), block,
					     bytes, alignment, zero, cache, hook);
	size_t cut = fresh == block && bytes < held ? held - bytes : 0;

	if (mt_likely(!cut))
		return fresh;
	if (atomic_fetch_add_explicit(&shrunk_bytes, cut, memory_order_relaxed) + cut >=
		    MT_JEMALLOC_LARGE_LEAST &&
	    on_freed) {
		atomic_store_explicit(&shrunk_bytes, 0, memory_order_relaxed);
		on_freed();
	}
	return fresh;
}
