#include "heap/jemalloc_large.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "heap/jemalloc_names.h"
#include "sys/attr.h"

/* Internal to jemalloc 5: src/large.c. Its callers in other files come here instead (jemalloc.mk).
 */
extern size_t je_large_salloc(void *thread, const void *extent) __attribute__((weak));
extern void __real_je_large_dalloc(void *thread, void *extent) __attribute__((weak));
void __wrap_je_large_dalloc(void *thread, void *extent);
extern void *__real_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes,
				    size_t alignment, bool zero, void *cache, void *hook)
	__attribute__((weak));
void *__wrap_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes, size_t alignment,
			     bool zero, void *cache, void *hook);

static void (*on_freed)(void);
static _Atomic size_t shrunk_bytes; /* since the last call of on_freed; counter, no ordering */

void mt_jemalloc_large_use(void (*freed)(void))
{
	on_freed = freed;
}

void __wrap_je_large_dalloc(void *thread, void *extent)
{
	size_t bytes = je_large_salloc(thread, extent);

	__real_je_large_dalloc(thread, extent);
	if (mt_unlikely(bytes >= MT_JEMALLOC_LARGE_LEAST) && on_freed)
		on_freed();
}

/* Blocks that realloc shrinks in place count together: libc returns what it cuts off each of them,
 * while it keeps freed blocks of the same size once it has seen one. */
void *__wrap_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes, size_t alignment,
			     bool zero, void *cache, void *hook)
{
	size_t held = je_malloc_usable_size(block);
	void *fresh =
		__real_je_large_ralloc(thread, arena, block, bytes, alignment, zero, cache, hook);
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
