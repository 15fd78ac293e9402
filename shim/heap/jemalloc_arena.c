#include "heap/jemalloc_arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/jemalloc_names.h"
#include "heap/jemalloc_pages.h"
#include "sys/attr.h"

/* dirty bytes that an arena without threads keeps, whatever the others have */
#define KEPT_BYTES (4u << 20)
/* dirty bytes of all arenas up to which it keeps more */
#define KEPT_IN_ALL_BYTES (32u << 20)

/* Internal to jemalloc 5: src/arena.c. Weak: another version may lack them. */
extern size_t je_oversize_threshold __attribute__((weak));
extern size_t je_opt_oversize_threshold __attribute__((weak));
extern void je_arena_decay(void *thread, void *arena, bool is_background, bool all)
	__attribute__((weak));

/* Where a thread ends or leaves an arena, jemalloc calls this instead of its own (jemalloc.mk). */
void mt_je_arena_decay(void *thread, void *arena, bool is_background, bool all);

/* Internal to jemalloc 5: src/large.c. Its callers in other files come here instead. */
extern void *__real_je_large_malloc(void *thread, void *arena, size_t bytes, bool zero)
	__attribute__((weak));
extern void *__real_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment,
				    bool zero) __attribute__((weak));
void *__wrap_je_large_malloc(void *thread, void *arena, size_t bytes, bool zero);
void *__wrap_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment, bool zero);

/* The threshold that a second thread sets; 0: none is to be set. Written before another thread
 * allocates; no ordering. */
static _Atomic size_t threshold;
static _Atomic(void *) first_thread; /* that has allocated as large a block; no ordering */

/* Until 5.3.0 a thread reads the variable, from 5.3.1 on its arena's copy, which a new arena takes
 * from the variable. */
static void set_threshold(size_t bytes)
{
	size_t mib[3];
	size_t length = 3;
	unsigned int count = mt_jemalloc_arenas_count();

	__atomic_store_n(&je_oversize_threshold, bytes, __ATOMIC_RELAXED);
	if (je_mallctlnametomib("arena.0.oversize_threshold", mib, &length) != 0)
		return;
	for (unsigned int index = 0; index < count; index++) {
		mib[1] = index;
		(void)je_mallctlbymib(mib, length, NULL, NULL, &bytes, sizeof(bytes));
	}
}

void mt_jemalloc_arena_begin(void)
{
	if (!&je_oversize_threshold || !&je_opt_oversize_threshold || !je_opt_oversize_threshold ||
	    !&__real_je_large_malloc)
		return;
	atomic_store_explicit(&threshold, je_oversize_threshold, memory_order_relaxed);
	set_threshold(SIZE_MAX);
}

void mt_jemalloc_arena_fork_child(void)
{
	if (!atomic_load_explicit(&threshold, memory_order_relaxed))
		return;
	atomic_store_explicit(&first_thread, NULL, memory_order_relaxed);
	if (je_oversize_threshold != SIZE_MAX)
		set_threshold(SIZE_MAX);
}

static void note_thread(void *thread, size_t bytes)
{
	size_t least = atomic_load_explicit(&threshold, memory_order_relaxed);
	void *first = NULL;

	if (!thread || !least || bytes < least)
		return;
	if (!atomic_compare_exchange_strong_explicit(&first_thread, &first, thread,
						     memory_order_relaxed, memory_order_relaxed) &&
	    first != thread && __atomic_load_n(&je_oversize_threshold, __ATOMIC_RELAXED) != least)
		set_threshold(least);
}

void *__wrap_je_large_malloc(void *thread, void *arena, size_t bytes, bool zero)
{
	note_thread(thread, bytes);
	return __real_je_large_malloc(thread, arena, bytes, zero);
}

void *__wrap_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment, bool zero)
{
	note_thread(thread, bytes);
	return __real_je_large_palloc(thread, arena, bytes, alignment, zero);
}

static bool has_much(void *arena)
{
	struct mt_heap_figures heap = {0};

	return mt_jemalloc_pages_free_bytes(arena) > KEPT_BYTES &&
	       (!mt_jemalloc_pages(&heap) || heap.dirty_bytes > KEPT_IN_ALL_BYTES);
}

/* jemalloc purges all of an arena (all) that its last thread leaves. Here it keeps what the next
 * thread would fault in again; the worker purges it once it is idle. */
void mt_je_arena_decay(void *thread, void *arena, bool is_background, bool all)
{
	je_arena_decay(thread, arena, is_background, all && has_much(arena));
}
