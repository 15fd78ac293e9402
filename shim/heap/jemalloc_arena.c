#include "heap/jemalloc_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "core/log.h"
#include "core/worker.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

/* dirty bytes that an arena without threads keeps, whatever the others have */
#define KEPT_BYTES (4u << 20)

/* Blocks from this size on do not come beside free pages of a comparable size, up to this factor:
 * glibc returns such a block to the kernel when it is freed. */
#define UNFIT_LEAST_BYTES (32u << 20)
#define UNFIT_FACTOR      4

#define JEMALLOC_CACHELINE 64 /* CACHELINE in include/jemalloc/internal/sz.h */

/* Internal to jemalloc 5: src/arena.c, src/jemalloc.c, src/ctl.c. Weak: another version may lack
 * them. */
extern size_t je_oversize_threshold __attribute__((weak));
extern size_t je_opt_oversize_threshold __attribute__((weak));

/* If a thread ends or leaves an arena, jemalloc calls this instead of its own (jemalloc.mk). */
void mt_je_arena_decay(void *thread, void *arena, bool is_background, bool all);

/* Internal to jemalloc 5: src/large.c. Its callers in other files come here instead. */
extern void *__real_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment,
				    bool zero) __attribute__((weak));
void *__wrap_je_large_malloc(void *thread, void *arena, size_t bytes, bool zero);
void *__wrap_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment, bool zero);

/* All are written while there is one thread. */
static void (*on_freed)(void);
static bool has_begun;
static unsigned int shared_index;
static void *shared;                         /* the arena of large blocks; NULL: jemalloc chooses */
static size_t shared_least_bytes = SIZE_MAX; /* smaller blocks come from their thread's arena */

/* jemalloc's own arena for large blocks is never made. Until 5.3.0 a thread reads the variable,
 * from 5.3.1 on its arena's copy, which a new arena takes from the variable. */
static void disable_threshold(void)
{
	size_t bytes = SIZE_MAX;

	je_oversize_threshold = bytes;
	(void)je_mallctl("arena.0.oversize_threshold", NULL, NULL, &bytes, sizeof(bytes));
}

static void share_own_arena(void)
{
	size_t bytes = sizeof(shared_index);

	if (je_mallctl("thread.arena", &shared_index, &bytes, NULL, 0) == 0)
		shared = __atomic_load_n(&je_arenas[shared_index], __ATOMIC_ACQUIRE);
}

void mt_jemalloc_arena_begin(void)
{
	has_begun = true;
	if (!&je_oversize_threshold || !&je_opt_oversize_threshold || !je_opt_oversize_threshold ||
	    !&__real_je_large_palloc || !je_arenas || !&je_manual_arena_base ||
	    !je_narenas_total_get)
		return;
	share_own_arena();
	if (!shared)
		return;
	shared_least_bytes = je_opt_oversize_threshold;
	disable_threshold();
}

void *mt_jemalloc_first_arena(void)
{
	return has_begun && je_arenas ? __atomic_load_n(&je_arenas[0], __ATOMIC_ACQUIRE) : NULL;
}

void mt_jemalloc_arena_fork_child(void)
{
	if (shared)
		share_own_arena();
}

/* If the program has made arenas, it may have chosen this one. */
static void *arena_of(void *arena, size_t bytes)
{
	if (mt_likely(bytes < shared_least_bytes) || !mt_jemalloc_has_own_arenas_only())
		return arena;
	return shared;
}

/* Returns the free bytes of the shared arena, if a large block will come from there and is of their
 * order: within UNFIT_FACTOR times more or less. Else 0. */
static uint64_t comparable_free_bytes(const void *arena, size_t bytes)
{
	uint64_t free_bytes;

	if (mt_likely(bytes < UNFIT_LEAST_BYTES) || arena != shared)
		return 0;
	free_bytes = mt_jemalloc_pages_free_bytes(shared);
	return free_bytes >= bytes / UNFIT_FACTOR && free_bytes / UNFIT_FACTOR <= bytes ? free_bytes
											: 0;
}

/* One small block among the free pages, and they do not lie together any more: the new block comes
 * from fresh memory, which nobody has touched yet. */
static MT_COLD void purge_unfit(uint64_t free_before)
{
	int kept = errno;

	if (mt_jemalloc_pages_free_bytes(shared) >= free_before)
		mt_jemalloc_purge_arena_soon(shared_index);
	errno = kept;
}

/* realloc moves the pages of a block only if it begins at one (heap/jemalloc_pages.c). */
void *__wrap_je_large_palloc(void *thread, void *arena, size_t bytes, size_t alignment, bool zero)
{
	void *from = arena_of(arena, bytes);
	uint64_t free_before = comparable_free_bytes(from, bytes);
	size_t least = bytes >= MT_JEMALLOC_PAGE_LEAST ? mt_jemalloc_page_bytes() : 1;
	void *block = __real_je_large_palloc(thread, from, bytes,
					     alignment > least ? alignment : least, zero);

	if (mt_unlikely(free_before))
		purge_unfit(free_before);
	if (block && !mt_jemalloc_thread_grows)
		mt_jemalloc_reuse_take(block, bytes, zero);
	return block;
}

/* The same with the alignment that jemalloc's own function passes on. */
void *__wrap_je_large_malloc(void *thread, void *arena, size_t bytes, bool zero)
{
	return __wrap_je_large_palloc(thread, arena, bytes, JEMALLOC_CACHELINE, zero);
}

/* jemalloc purges all of an arena (all) that its last thread leaves, and the next thread faults it
 * in again. Here the worker purges it once it is idle; near a limit, this thread. */
void mt_je_arena_decay(void *thread, void *arena, bool is_background, bool all)
{
	bool has_much = all && mt_jemalloc_pages_free_bytes(arena) > KEPT_BYTES;

	je_arena_decay(thread, arena, is_background, has_much && !mt_worker_is_running());
	if (has_much && on_freed && mt_worker_is_running())
		on_freed();
}

/* ---- large blocks that are freed or shrunk ---- */

/* What is tried at the start: more than a thread's cache takes. Below four pages jemalloc has no
 * large blocks. */
#define PROBE_BYTES (128u << 10)
#define PROBE_PAGES 8u
/* the least that is returned of a block */
#define CUT_LEAST_BYTES (16u << 10)

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
 * if large_salloc is missing. Written before another thread uses jemalloc. */
static const char *probe;
static bool is_extent_known;

/* src/jemalloc.c of 5.3.1: large blocks are of any number of pages, and each comes from a larger
 * mapping whose rest counts as dirty, though nobody has touched it. */
extern bool je_opt_disable_large_size_classes __attribute__((weak, visibility("hidden")));

MT_TLS bool mt_jemalloc_thread_grows;

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
	size_t read = mt_jemalloc_extent_bytes(extent);

	is_extent_known = (uintptr_t)mt_jemalloc_extent_begin(extent) ==
				  mt_jemalloc_extent_whole_pages((uintptr_t)probe) &&
			  (read == bytes || read == bytes + mt_jemalloc_page_bytes());
}

void mt_jemalloc_large_begin(void)
{
	uint64_t bytes = PROBE_PAGES * mt_jemalloc_page_bytes();

	if (&je_large_salloc || !&__real_je_large_dalloc)
		return;
	mt_assert(!probe && !is_extent_known);
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
	return is_extent_known ? mt_jemalloc_extent_bytes(extent) : 0;
}

void __wrap_je_large_dalloc(void *thread, void *extent)
{
	size_t bytes;

	mt_jemalloc_errors_check_large(extent);
	bytes = bytes_of(thread, extent);
	mt_jemalloc_reuse_free(((const struct mt_extent *)extent)->address, bytes);
	__real_je_large_dalloc(thread, extent);
	if (mt_unlikely(bytes >= MT_JEMALLOC_LARGE_LEAST) && on_freed &&
	    mt_jemalloc_thread_has_allocated())
		on_freed();
}

/* If the heap grows, what is cut off a block is of no use to the next block of that size: it goes
 * back while it is still the block's own, as libc unmaps it if it has mapped the block. Two pages
 * are left, since a block need not begin at one. */
static void return_cut(char *block, size_t held, size_t bytes)
{
	char *from = mt_jemalloc_page_of(block + bytes) + 2 * mt_jemalloc_page_bytes();
	char *end = mt_jemalloc_page_of(block + held);
	int kept = errno;

	if (end > from && (size_t)(end - from) >= CUT_LEAST_BYTES && mt_jemalloc_thread_grows)
		(void)mt_raw_syscall(SYS_madvise, from, end - from, MADV_DONTNEED);
	errno = kept;
}

/* Blocks that realloc shrinks in place count together: libc returns what it cuts off each of them,
 * while it keeps freed blocks of the same size once it has seen one. */
void *__wrap_je_large_ralloc(void *thread, void *arena, void *block, size_t bytes, size_t alignment,
			     bool zero, void *cache, void *hook)
{
	size_t held = je_malloc_usable_size(block), cut;
	void *fresh;

	if (bytes < held)
		return_cut(block, held, bytes);
	fresh = __real_je_large_ralloc(thread, arena_of(arena, bytes), block, bytes, alignment,
				       zero, cache, hook);
	cut = fresh == block && bytes < held ? held - bytes : 0;
	if (mt_likely(!cut))
		return fresh;
	if (mt_add_relaxed(&shrunk_bytes, cut) + cut >= MT_JEMALLOC_LARGE_LEAST && on_freed) {
		mt_store_relaxed(&shrunk_bytes, 0);
		on_freed();
	}
	return fresh;
}
