#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "heap/jemalloc_internal.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/libc.h"
#include "sys/os.h"

/* never a foreign library's of that name */
#define OF_OURS __attribute__((weak, visibility("hidden")))

/* A small block and a large one, past every thread's cache. */
#define SMALL_BYTES 64u
#define LARGE_BYTES (128u << 10)

/* Where bits of struct mt_extent has what. */
#define STATE_SHIFT      17
#define STATE_MASK       7u /* 0: in use */
#define FREE_COUNT_SHIFT 28 /* up to the regions of 8 bytes in a page, and one bit more */

/* The flags of a leaf. */
#define LEAF_IS_SLAB(leaf) ((leaf)&1)
#define LEAF_STATE(leaf)   ((leaf) >> 2 & STATE_MASK)

/* Internal to jemalloc 5.3: src/rtree.c, src/large.c, src/arena.c. Weak: another version may lack
 * them. Their callers in other files come here first (jemalloc.mk). */
extern void __real_je_large_dalloc_prep_locked(void *thread, struct mt_extent *extent) OF_OURS;
extern void __real_je_arena_dalloc_promoted(void *thread, void *ptr, void *cache,
					    bool slow) OF_OURS;
extern void __real_je_arena_dalloc_bin_locked_handle_newly_empty(void *thread, void *arena,
								 struct mt_extent *slab,
								 void *bin) OF_OURS;
uint64_t *__wrap_je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context,
					       uintptr_t key, bool is_known, bool make_missing);
void __wrap_je_large_dalloc_prep_locked(void *thread, struct mt_extent *extent);
void __wrap_je_arena_dalloc_promoted(void *thread, void *ptr, void *cache, bool slow);
void __wrap_je_arena_dalloc_bin_locked_handle_newly_empty(void *thread, void *arena,
							  struct mt_extent *slab, void *bin);

/* Both are written before another thread uses jemalloc. The mask of a slab's free count is 0 if
 * the layout is unknown. */
static bool is_known;
static uint64_t free_count_mask;

static MT_COLD _Noreturn void fail(const char *call, const char *what)
{
	char line[80];
	size_t length = mt_format(line, sizeof(line), "%s: %s\n", call, what);

	(void)!mt_raw_syscall(SYS_write, STDERR_FILENO, line, length);
	abort();
}

static unsigned int state_of(const struct mt_extent *extent)
{
	return __atomic_load_n(&extent->bits, __ATOMIC_RELAXED) >> STATE_SHIFT & STATE_MASK;
}

static bool is_region_free(const struct mt_extent *slab, size_t region)
{
	return __atomic_load_n(&slab->free_regions[region / 64], __ATOMIC_RELAXED) >> region % 64 &
	       1;
}

/* ---- trying the layout ---- */

static bool try_small(const char *block)
{
	uint64_t leaf = mt_jemalloc_extent_leaf(block);
	const struct mt_extent *slab = MT_LEAF_EXTENT(leaf);
	size_t offset;

	if (!slab || !LEAF_IS_SLAB(leaf) || LEAF_STATE(leaf) || state_of(slab) ||
	    block < slab->address)
		return false;
	offset = (size_t)(block - slab->address);
	return offset % SMALL_BYTES == 0 && offset < mt_jemalloc_page_bytes() &&
	       !is_region_free(slab, offset / SMALL_BYTES);
}

static bool try_large(char *block)
{
	uint64_t leaf = mt_jemalloc_extent_leaf(block);
	const struct mt_extent *extent = MT_LEAF_EXTENT(leaf);
	bool fits = extent && !LEAF_IS_SLAB(leaf) && !LEAF_STATE(leaf) && !state_of(extent) &&
		    extent->address == block;

	je_free(block);
	return fits && state_of(extent) != 0;
}

bool mt_jemalloc_errors_are_known(void)
{
	return is_known;
}

void mt_jemalloc_errors_begin(void)
{
	char *small, *large;

	if (!je_arena_emap_global || !&__real_je_rtree_leaf_elm_lookup_hard)
		return;
	small = je_malloc(SMALL_BYTES);
	large = je_malloc(LARGE_BYTES);
	is_known = small && large && try_small(small);
	is_known = large && try_large(large) && is_known;
	je_free(small);
	free_count_mask = is_known ? mt_jemalloc_page_bytes() / 4 - 1 : 0;
}

/* ---- MT_CHECK=1 ---- */

static void check_region(const char *call, const struct mt_extent *slab, const char *block)
{
	size_t size = je_malloc_usable_size((void *)(uintptr_t)block);
	size_t offset = (size_t)(block - slab->address);
	size_t bytes = mt_jemalloc_extent_bytes(slab);

	if (offset % size || offset / size >= bytes / size)
		fail(call, "invalid pointer");
	if (is_region_free(slab, offset / size))
		fail(call, "double free detected");
}

void mt_jemalloc_errors_check(const char *call, const void *ptr)
{
	uint64_t leaf = mt_jemalloc_extent_leaf(ptr);
	const struct mt_extent *extent = MT_LEAF_EXTENT(leaf);

	if (!is_known)
		return;
	if (!extent)
		fail(call, "invalid pointer");
	if (LEAF_STATE(leaf))
		fail(call, "double free or invalid pointer");
	if (LEAF_IS_SLAB(leaf))
		check_region(call, extent, ptr);
	else if (extent->address != ptr)
		fail(call, "invalid pointer");
}

/* ---- where jemalloc comes by ---- */

/* A signal handler has interrupted the allocator, and would wait for itself. */
void mt_jemalloc_errors_check_owner(int owner)
{
	if (mt_unlikely(owner && owner == mt_libc_own_tid()))
		fail("malloc()", "called by a signal handler that has interrupted it");
}

/* jemalloc takes it on trust that the heap has this address, and would crash. */
uint64_t *__wrap_je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context,
					       uintptr_t key, bool is_trusted, bool make_missing)
{
	uint64_t *leaf = __real_je_rtree_leaf_elm_lookup_hard(thread, tree, context, key, false,
							      make_missing);

	if (mt_unlikely(!leaf) && is_trusted)
		fail("free()", "invalid pointer");
	return leaf;
}

/* A page of which the tree knows nothing looks like a sampled block of 8 bytes. */
void __wrap_je_arena_dalloc_promoted(void *thread, void *ptr, void *cache, bool slow)
{
	if (is_known && !MT_LEAF_EXTENT(mt_jemalloc_extent_leaf(ptr)))
		fail("free()", "invalid pointer");
	__real_je_arena_dalloc_promoted(thread, ptr, cache, slow);
}

void mt_jemalloc_errors_check_large(const void *extent)
{
	if (mt_unlikely(!extent) || (is_known && mt_unlikely(state_of(extent))))
		fail("free()", "double free or invalid pointer");
}

void __wrap_je_large_dalloc_prep_locked(void *thread, struct mt_extent *extent)
{
	mt_jemalloc_errors_check_large(extent);
	__real_je_large_dalloc_prep_locked(thread, extent);
}

static bool are_all_free(const struct mt_extent *slab)
{
	uint64_t count = slab->bits >> FREE_COUNT_SHIFT & free_count_mask;
	uint64_t rest = (1ull << count % 64) - 1;

	for (uint64_t i = 0; i < count / 64; i++)
		if (slab->free_regions[i] != UINT64_MAX)
			return false;
	return (slab->free_regions[count / 64] & rest) == rest;
}

/* A region that is freed twice counts twice, and its bit says that it is in use again. */
void __wrap_je_arena_dalloc_bin_locked_handle_newly_empty(void *thread, void *arena,
							  struct mt_extent *slab, void *bin)
{
	if (mt_unlikely(!are_all_free(slab)))
		fail("free()", "double free detected");
	__real_je_arena_dalloc_bin_locked_handle_newly_empty(thread, arena, slab, bin);
}
