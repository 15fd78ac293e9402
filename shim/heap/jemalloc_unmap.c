#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "core/init.h"
#include "core/thread.h"
#include "heap/entries.h"
#include "heap/jemalloc_internal.h"
#include "heap/page_flags.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* Shares of the limit: free bytes that may stay mapped, and what an arena maps ahead. */
#define KEPT_SHARE       64
#define AHEAD_PER_KEPT   4
#define KEPT_LEAST_BYTES (2u << 20)
/* Free bytes also stay mapped if they are so small a share of what could still be mapped. */
#define ROOM_SHARE 8
/* A heap that has grown by less than this share is taken to be as large as before. */
#define SAME_SHARE 8
/* Each hole may be a mapping more, and the kernel allows 65,530: so many holes fit in the limit. */
#define HOLES_MOST       16384
#define HOLE_LEAST_BYTES (64u << 10) /* and the step of it: whole pages of any size */
#define PURGE_WAIT_NS    (10 * MT_NS_PER_MS)
/* and of a thread whose allocation fails, unless that is small: a hundred would stand in line */
#define ROOM_WAIT_NS MT_NS_PER_MS
/* A sweep that took 1 ms of CPU time may begin again after so many: one of the worker, and one of a
 * thread whose allocation fails. */
#define SWEEP_PAUSE        16
#define SWEEP_PAUSE_FAILED 4
/* enum thp_mode_t: the user's thp:never */
#define THP_NEVER 2
/* struct edata_s: the extent has guard pages around it */
#define GUARDED (1u << 16)
/* and its state, of which 0 is a range in use */
#define STATE        (UINT64_C(7) << 17)
#define STATE_PURGED (UINT64_C(3) << 17)
/* What the kernel makes resident by one call, once the thread has grown the heap by the second. A
 * thread of a large pool that keeps a few blocks never touches the rest of its slabs. */
#define AHEAD_BYTES       ((size_t)64 << 10)
#define AHEAD_LEAST_BYTES (64 * AHEAD_BYTES)
/* The size class of 4,096 bytes, of classes of 8, 16 and four to each doubling: in each page a
 * block begins. Of larger ones a program may leave whole pages untouched. */
#define AHEAD_CLASS_MAX 28u
/* Address space that the first arena maps. jemalloc begins with 2 MB, and each further mapping is
 * larger by a size class. A list that grows finds each of its places in a mapping of its own then,
 * and none that it has left serves a larger one. */
#define FIRST_UNIT_BYTES ((size_t)32 << 20)
/* A thread that has grown the heap by so much joins free slabs first: up to so many. It visits so
 * many, and so many more for each that it joins. */
#define JOIN_AFTER_BYTES ((size_t)1 << 20)
#define JOINS_MOST       2048u
#define JOIN_VISITS      64u
#define VISITS_A_JOIN    8u
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Internal to jemalloc 5.3: src/pac.c, src/extent.c, src/ehooks.c, src/emap.c, src/arena.c. Calls
 * from other files come here instead (jemalloc.mk). */
extern int je_opt_thp __attribute__((weak));
extern void je_emap_deregister_boundary(void *thread, void *emap, void *extent)
	__attribute__((weak));
extern bool je_emap_register_boundary(void *thread, void *emap, void *extent, unsigned int size,
				      bool slab) __attribute__((weak));
extern void je_extent_destroy_wrapper(void *thread, void *pac, void *hooks, void *extent)
	__attribute__((weak));
extern struct mt_extent *je_ecache_evict(void *thread, void *pac, void *hooks, void *cache,
					 size_t least_pages) __attribute__((weak));
extern void *je_ecache_alloc(void *thread, void *pac, void *hooks, void *cache, void *expanded,
			     size_t bytes, size_t alignment, bool zero, bool guarded)
	__attribute__((weak));
extern bool je_arena_retain_grow_limit_get_set(void *thread, void *arena, size_t *old_limit,
					       size_t *new_limit) __attribute__((weak));
extern void __real_je_extent_dalloc_wrapper(void *thread, void *pac, void *hooks, void *extent)
	__attribute__((weak));
void __wrap_je_extent_dalloc_wrapper(void *thread, void *pac, void *hooks, void *extent);
extern void __real_je_ecache_dalloc(void *thread, void *pac, void *hooks, void *cache, void *extent)
	__attribute__((weak));
void __wrap_je_ecache_dalloc(void *thread, void *pac, void *hooks, void *cache, void *extent);
extern void *__real_je_ehooks_default_alloc_impl(void *thread, void *address, size_t bytes,
						 size_t alignment, bool *zero, bool *commit,
						 unsigned int arena) __attribute__((weak));
void *__wrap_je_ehooks_default_alloc_impl(void *thread, void *address, size_t bytes,
					  size_t alignment, bool *zero, bool *commit,
					  unsigned int arena);
extern void *__real_je_ecache_alloc_grow(void *thread, void *pac, void *hooks, void *cache,
					 void *expanded, size_t bytes, size_t alignment, bool zero,
					 bool guarded) __attribute__((weak));
void *__wrap_je_ecache_alloc_grow(void *thread, void *pac, void *hooks, void *cache, void *expanded,
				  size_t bytes, size_t alignment, bool zero, bool guarded);
extern void __real_je_ehooks_default_destroy_impl(void *address, size_t bytes)
	__attribute__((weak));
void __wrap_je_ehooks_default_destroy_impl(void *address, size_t bytes);
extern void je_pa_dalloc(void *thread, void *shard, struct mt_extent *extent, bool *out_deferred)
	__attribute__((weak));
extern struct mt_extent *__real_je_pa_alloc(void *thread, void *shard, size_t bytes,
					    size_t alignment, bool slab, unsigned int size_class,
					    bool zero, bool guarded, bool *out_deferred)
	__attribute__((weak));
struct mt_extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t bytes, size_t alignment,
				     bool slab, unsigned int size_class, bool zero, bool guarded,
				     bool *out_deferred);

extern void *__real_je_emap_try_acquire_edata_neighbor(void *thread, void *emap,
						       struct mt_extent *extent, int pai, int state,
						       bool forward) __attribute__((weak));
void *__wrap_je_emap_try_acquire_edata_neighbor(void *thread, void *emap, struct mt_extent *extent,
						int pai, int state, bool forward);
extern void *__real_je_emap_try_acquire_edata_neighbor_expand(void *thread, void *emap,
							      struct mt_extent *extent, int pai,
							      int state) __attribute__((weak));
void *__wrap_je_emap_try_acquire_edata_neighbor_expand(void *thread, void *emap,
						       struct mt_extent *extent, int pai,
						       int state);

static _Atomic size_t kept_bytes;  /* 0: address space is not returned; no ordering */
static _Atomic size_t least_bytes; /* smaller extents stay mapped; likewise */
static _Atomic size_t freed_bytes; /* since the last look; counter, no ordering */
/* at the last purge for what was freed: active pages; at the largest: with the free ones. No
 * ordering */
static _Atomic size_t left_bytes, size_bytes;
static _Atomic int probe_protection; /* mmap's protection, or MT_JEMALLOC_NO_PROBE; no ordering */
static _Atomic bool is_full;         /* the kernel has once refused a mapping; flag, no ordering */
static _Atomic bool is_refused;      /* and did so since the last sweep; likewise */

/* From an arena to its `pac`, from there to its caches of purged and of free extents, and the hooks
 * of an arena: all have jemalloc's own. 0: not seen yet. No ordering. */
static _Atomic ptrdiff_t pac_offset;
static _Atomic ptrdiff_t purged_cache_offset;
static _Atomic ptrdiff_t free_cache_offset;
static void *_Atomic some_hooks;

static _Atomic bool cannot_populate;

static MT_TLS size_t grown_bytes; /* that were not resident */
static MT_TLS bool is_unmapped;   /* the extent that the thread destroys */

static MT_TLS size_t joined_at_bytes;  /* of grown_bytes */
static MT_TLS unsigned int joins_left; /* 0: the thread joins none now; 1: and no more of them */

/* ---- unmapping ---- */

/* Returns whether no extent lies on one side of this one. To unmap it makes no further hole. */
static bool is_beside_hole(const struct mt_extent *extent)
{
	const char *begin = mt_jemalloc_extent_begin(extent);

	return !MT_LEAF_EXTENT(mt_jemalloc_extent_leaf(begin - 1)) ||
	       !MT_LEAF_EXTENT(mt_jemalloc_extent_leaf(begin + mt_jemalloc_extent_bytes(extent)));
}

/* The extent is nobody's and in no cache. It leaves jemalloc's tree first, since another arena may
 * get the addresses right after. */
static bool unmap(void *thread, void *pac, void *hooks, struct mt_extent *extent, size_t least)
{
	char *begin = mt_jemalloc_extent_begin(extent);
	size_t bytes = mt_jemalloc_extent_bytes(extent);

	mt_assert(!is_unmapped && bytes > 0);
	if ((extent->bits & GUARDED) || !mt_jemalloc_has_own_arenas_only() ||
	    (bytes < least && !(mt_load_relaxed(&is_full) && is_beside_hole(extent))))
		return false;
	je_emap_deregister_boundary(thread, je_arena_emap_global, extent);
	mt_page_flags_unmapped(begin, bytes);
	if (munmap(begin, bytes) != 0) {
		mt_page_flags_mapped(begin, bytes);
		/* jemalloc reads the size class of blocks alone */
		(void)je_emap_register_boundary(thread, je_arena_emap_global, extent, 0, false);
		return false;
	}
	is_unmapped = true;
	je_extent_destroy_wrapper(thread, pac, hooks, extent);
	is_unmapped = false;
	return true;
}

void __wrap_je_ehooks_default_destroy_impl(void *address, size_t bytes)
{
	if (!is_unmapped)
		__real_je_ehooks_default_destroy_impl(address, bytes);
}

/* Returns an extent of these bytes from the purged ones of the arena, or NULL. before: the extent
 * that it must follow, or NULL. */
static struct mt_extent *take_purged(void *thread, char *pac, void *hooks, struct mt_extent *before,
				     size_t bytes)
{
	ptrdiff_t offset = mt_load_relaxed(&purged_cache_offset);

	mt_assert(bytes % mt_jemalloc_page_bytes() == 0);
	return offset ? je_ecache_alloc(thread, pac, hooks, pac + offset, before, bytes,
					mt_jemalloc_page_bytes(), false, false)
		      : NULL;
}

/* Returns the bytes of the purged extent behind this one; 0 if there is none. */
static size_t purged_behind(const struct mt_extent *extent)
{
	const struct mt_extent *behind = MT_LEAF_EXTENT(mt_jemalloc_extent_leaf(
		mt_jemalloc_extent_begin(extent) + mt_jemalloc_extent_bytes(extent)));

	return behind && (__atomic_load_n(&behind->bits, __ATOMIC_RELAXED) & STATE) == STATE_PURGED
		       ? mt_jemalloc_extent_bytes(behind)
		       : 0;
}

/* Unmaps the extent, and the purged one behind it, which would stay between two holes if it is
 * small, and take one of the kernel's mappings for good. Returns false if the extent stays. */
static bool unmap_whole(void *thread, void *pac, void *hooks, struct mt_extent *extent,
			size_t least)
{
	size_t behind = mt_jemalloc_extent_bytes(extent) >= least ? purged_behind(extent) : 0;
	struct mt_extent *rest = behind ? take_purged(thread, pac, hooks, extent, behind) : NULL;

	if (rest && !unmap(thread, pac, hooks, rest, 0))
		__real_je_extent_dalloc_wrapper(thread, pac, hooks, rest);
	if (unmap(thread, pac, hooks, extent, least))
		return true;
	__real_je_extent_dalloc_wrapper(thread, pac, hooks, extent);
	return false;
}

/* jemalloc returns an extent to the kernel. What was too small when it was purged may have joined
 * its neighbours since. */
void __wrap_je_extent_dalloc_wrapper(void *thread, void *pac, void *hooks, void *extent)
{
	size_t least = mt_load_relaxed(&least_bytes);

	if (mt_likely(!least)) {
		__real_je_extent_dalloc_wrapper(thread, pac, hooks, extent);
		return;
	}
	(void)unmap_whole(thread, pac, hooks, extent, least);
	while ((extent = take_purged(thread, pac, hooks, NULL, least)) &&
	       unmap_whole(thread, pac, hooks, extent, least))
		;
}

/* Takes the oldest purged extent of the arena out and unmaps it, or returns it to the kernel as the
 * newest, until all had their turn. In between it counts as in use, else a neighbour that is freed
 * could join it. */
static void sweep_arena(char *arena, uint64_t left)
{
	char *pac = arena + mt_load_relaxed(&pac_offset);
	void *cache = pac + mt_load_relaxed(&purged_cache_offset);
	void *hooks = mt_load_relaxed(&some_hooks);
	size_t kept = mt_load_relaxed(&kept_bytes);
	size_t least = kept ? kept / (HOLES_MOST / KEPT_SHARE) : SIZE_MAX;
	struct mt_extent *extent;

	while (left && (extent = je_ecache_evict(NULL, pac, hooks, cache, 0))) {
		left -= left < mt_jemalloc_extent_bytes(extent) ? left
								: mt_jemalloc_extent_bytes(extent);
		extent->bits &= ~STATE;
		(void)je_emap_register_boundary(NULL, je_arena_emap_global, extent, 0, false);
		if (!unmap(NULL, pac, hooks, extent, least))
			__real_je_extent_dalloc_wrapper(NULL, pac, hooks, extent);
	}
}

/* expanded: the block that the extent continues, or NULL. */
static bool may_be_huge(const struct mt_extent *extent, const struct mt_extent *expanded)
{
	size_t bytes = mt_jemalloc_extent_bytes(extent) +
		       (expanded ? mt_jemalloc_extent_bytes(expanded) : 0);

	return bytes >= MT_PAGE_FLAGS_LARGE_BYTES && je_opt_thp != THP_NEVER &&
	       mt_jemalloc_has_own_arenas_only();
}

/* A new mapping for an extent. If there is no memory for its leaf, jemalloc forgets the mapping,
 * which then counts against the limit for good. */
void *__wrap_je_ehooks_default_alloc_impl(void *thread, void *address, size_t bytes,
					  size_t alignment, bool *zero, bool *commit,
					  unsigned int arena)
{
	char *fresh = __real_je_ehooks_default_alloc_impl(thread, address, bytes, alignment, zero,
							  commit, arena);

	if (!fresh || mt_likely(!mt_load_relaxed(&kept_bytes)) ||
	    (mt_jemalloc_extent_make_leaf(thread, fresh) &&
	     mt_jemalloc_extent_make_leaf(thread, fresh + bytes - 1)))
		return fresh;
	mt_page_flags_unmapped(fresh, bytes);
	(void)munmap(fresh, bytes);
	return NULL;
}

/* Maps one extent of this size, from which the arena takes what it needs: extents of two mappings
 * never join. */
static MT_COLD void map_unit(void *thread, void *pac, void *hooks, void *cache, size_t bytes)
{
	struct mt_extent *unit;

	mt_assert(bytes % mt_jemalloc_page_bytes() == 0);
	unit = __real_je_ecache_alloc_grow(thread, pac, hooks, cache, NULL, bytes,
					   mt_jemalloc_page_bytes(), false, false);

	if (unit)
		__real_je_extent_dalloc_wrapper(thread, pac, hooks, unit);
}

static MT_COLD void note_places(char *pac, void *hooks, char *cache, const struct mt_extent *extent)
{
	char *arena =
		__atomic_load_n(&je_arenas[extent->bits & MT_EXTENT_ARENA_MASK], __ATOMIC_ACQUIRE);

	if (!arena || !mt_jemalloc_has_own_arenas_only())
		return;
	mt_store_relaxed(&pac_offset, pac - arena);
	mt_store_relaxed(&purged_cache_offset, cache - pac);
	mt_store_relaxed(&some_hooks, hooks);
}

/* jemalloc joins a free slab with its neighbours when it purges them, since to do so at each free
 * costs as much as to allocate one. Until then free pages in pieces of a slab serve no larger slab:
 * strings that grow by turns would leave all that they have outgrown behind. */
static MT_COLD void join_free(void *thread, void *pac, void *hooks, void *cache)
{
	struct mt_extent *extent;

	mt_assert(joins_left == 0);
	joins_left = JOINS_MOST;
	for (unsigned int visits = 0;
	     joins_left > 1 && visits < JOIN_VISITS + VISITS_A_JOIN * (JOINS_MOST - joins_left) &&
	     (extent = je_ecache_evict(thread, pac, hooks, cache, 0));
	     visits++)
		__real_je_ecache_dalloc(thread, pac, hooks, cache, extent);
	joins_left = 0;
	joined_at_bytes = grown_bytes;
}

/* Returns an extent of the arena's free pages, or NULL. */
static inline struct mt_extent *take_joined(void *thread, char *pac, void *hooks, size_t bytes,
					    size_t alignment, bool zero)
{
	ptrdiff_t offset = mt_load_relaxed(&free_cache_offset);

	if (mt_likely(grown_bytes - joined_at_bytes < JOIN_AFTER_BYTES) || !offset ||
	    !mt_jemalloc_has_own_arenas_only())
		return NULL;
	join_free(thread, pac, hooks, pac + offset);
	return je_ecache_alloc(thread, pac, hooks, pac + offset, NULL, bytes, alignment, zero,
			       false);
}

/* The pages have never been touched, or are purged. */
void *__wrap_je_ecache_alloc_grow(void *thread, void *pac, void *hooks, void *cache, void *expanded,
				  size_t bytes, size_t alignment, bool zero, bool guarded)
{
	struct mt_extent *extent =
		expanded || guarded ? NULL
				    : take_joined(thread, pac, hooks, bytes, alignment, zero);

	if (mt_unlikely(extent != NULL))
		return extent;
	/* If the kernel refuses what an arena maps ahead, jemalloc maps each slab by itself: most
	 * of the limit would be pieces that are too small to unmap. */
	if (mt_unlikely(mt_load_relaxed(&is_full)) && !expanded && !guarded &&
	    bytes < mt_load_relaxed(&least_bytes)) {
		extent = je_ecache_alloc(thread, pac, hooks, cache, NULL, bytes, alignment, zero,
					 false);
		if (!extent)
			map_unit(thread, pac, hooks, cache, mt_load_relaxed(&least_bytes));
	}
	if (!extent)
		extent = __real_je_ecache_alloc_grow(thread, pac, hooks, cache, expanded, bytes,
						     alignment, zero, guarded);
	if (!extent)
		return NULL;
	if (mt_unlikely(!mt_load_relaxed(&some_hooks))) {
		note_places(pac, hooks, cache, extent);
		if (!mt_load_relaxed(&kept_bytes))
			map_unit(thread, pac, hooks, cache, FIRST_UNIT_BYTES);
	}
	mt_jemalloc_thread_grows = true;
	grown_bytes += bytes;
	if (!guarded && may_be_huge(extent, expanded))
		mt_page_flags_allow_huge(mt_jemalloc_extent_begin(extent),
					 mt_jemalloc_extent_bytes(extent));
	else
		mt_page_flags_used(mt_jemalloc_extent_begin(extent),
				   mt_jemalloc_extent_bytes(extent));
	return extent;
}

/* ---- pages of slabs ---- */

/* Whether the pages behind the slab are the rest of what it was taken from. A hole between slabs is
 * used page by page: what lies behind it may never be wanted. */
static bool is_rest_behind(const struct mt_extent *slab)
{
	return purged_behind(slab) >= AHEAD_BYTES;
}

/* They count as free and dirty until slabs take them. */
static MT_COLD void populate(void *thread, void *shard, unsigned int size_class)
{
	int kept = errno;
	bool is_deferred = false; /* jemalloc's own purges, of which there are none */
	struct mt_extent *ahead =
		__real_je_pa_alloc(thread, shard, AHEAD_BYTES, mt_jemalloc_page_bytes(), false,
				   size_class, false, false, &is_deferred);

	if (!ahead)
		return;
	mt_assert(mt_jemalloc_extent_bytes(ahead) == AHEAD_BYTES);
	if (mt_raw_syscall(SYS_madvise, mt_jemalloc_extent_begin(ahead), AHEAD_BYTES,
			   MADV_POPULATE_WRITE) != 0 &&
	    errno == EINVAL)
		mt_store_relaxed(&cannot_populate, true);
	je_pa_dalloc(thread, shard, ahead, &is_deferred);
	errno = kept;
}

/* ---- neighbours ---- */

/* Jemalloc joins an extent with its neighbour unless that one begins a mapping: it takes it for
 * granted that extents of one mapping have one arena. What lies behind a hole no longer begins with
 * its mapping, and the hole may be mapped again for another arena. The arena of an extent's record
 * does not change meanwhile (heap/jemalloc_records.c), so that it may be read without the other
 * arena's lock. */
static bool is_beside_another_arena(const struct mt_extent *extent, bool forward)
{
	const char *beside =
		forward ? mt_jemalloc_extent_begin(extent) + mt_jemalloc_extent_bytes(extent)
			: mt_jemalloc_extent_begin(extent) - 1;
	const struct mt_extent *neighbour;

	if (mt_likely(!mt_load_relaxed(&kept_bytes)))
		return false;
	neighbour = MT_LEAF_EXTENT(mt_jemalloc_extent_leaf(beside));
	return neighbour && ((__atomic_load_n(&neighbour->bits, __ATOMIC_RELAXED) ^ extent->bits) &
			     MT_EXTENT_ARENA_MASK);
}

void *__wrap_je_emap_try_acquire_edata_neighbor(void *thread, void *emap, struct mt_extent *extent,
						int pai, int state, bool forward)
{
	void *neighbour;

	if (is_beside_another_arena(extent, forward) || mt_unlikely(joins_left == 1))
		return NULL;
	neighbour = __real_je_emap_try_acquire_edata_neighbor(thread, emap, extent, pai, state,
							      forward);
	if (mt_unlikely(joins_left) && neighbour)
		joins_left--;
	return neighbour;
}

void *__wrap_je_emap_try_acquire_edata_neighbor_expand(void *thread, void *emap,
						       struct mt_extent *extent, int pai, int state)
{
	if (is_beside_another_arena(extent, true))
		return NULL;
	return __real_je_emap_try_acquire_edata_neighbor_expand(thread, emap, extent, pai, state);
}

/* ---- when ---- */

/* Maps and unmaps so much, to see whether the kernel would. */
static bool can_map(size_t bytes, int protection, int flags)
{
	void *probe = mmap(NULL, bytes, protection, flags, -1, 0);

	if (probe == MAP_FAILED)
		return false;
	(void)munmap(probe, bytes);
	return true;
}

/* Returns whether the program has taken again what was free at a purge, and no more: then it may do
 * so once more, and would fault for each page. Notes a purge if not. */
static bool is_reusing(const struct mt_heap_figures *pages)
{
	size_t size = pages->active_bytes + pages->dirty_bytes;
	size_t purged_size = mt_load_relaxed(&size_bytes);

	if (pages->active_bytes >= mt_load_relaxed(&left_bytes) &&
	    size <= purged_size + purged_size / SAME_SHARE)
		return true;
	mt_store_relaxed(&left_bytes, pages->active_bytes);
	mt_store_relaxed(&size_bytes, mt_max_u64(size, purged_size));
	return false;
}

/* Returns whether the free pages may stay mapped: the program reuses them, and they are few or
 * little beside what it could map by itself. Pages that are locked go only with their mapping. */
static bool may_stay(size_t kept)
{
	int protection = mt_load_relaxed(&probe_protection);
	struct mt_heap_figures pages;

	if (!mt_jemalloc_pages(&pages) || !is_reusing(&pages))
		return false;
	return protection == MT_JEMALLOC_NO_PROBE || pages.dirty_bytes < kept / 2 ||
	       can_map(ROOM_SHARE * pages.dirty_bytes, protection,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

/* may_leave: only if the free pages may not stay. Returns false if another thread purges. */
static MT_COLD bool purge_all(uint64_t patience_ns, bool may_leave)
{
	size_t kept = mt_load_relaxed(&kept_bytes);
	size_t ahead = kept * AHEAD_PER_KEPT;
	int saved_errno = errno;

	if (!mt_jemalloc_first_arena() || !mt_jemalloc_has_own_arenas_only())
		return true;
	if (!mt_purge_enter_within(patience_ns))
		return false;
	may_leave = may_leave && may_stay(kept);
	for (unsigned int index = 0; index < je_manual_arena_base; index++) {
		void *arena = __atomic_load_n(&je_arenas[index], __ATOMIC_ACQUIRE);

		if (!arena)
			continue;
		(void)je_arena_retain_grow_limit_get_set(NULL, arena, NULL, &ahead);
		if (!may_leave)
			mt_jemalloc_purge_arena(index);
	}
	mt_purge_leave();
	errno = saved_errno;
	return true;
}

/* Returns whether so much was freed since the last look. Then only this thread looks: a hundred
 * would stand in line for the lock. */
static bool takes_freed(size_t bytes)
{
	return mt_load_relaxed(&freed_bytes) >= bytes &&
	       mt_exchange_relaxed(&freed_bytes, 0) >= bytes;
}

#ifdef MT_JEMALLOC_FREE_EVENTS
#define HAS_FREE_EVENTS true
#else
#define HAS_FREE_EVENTS false
#endif

/* jemalloc has no events for a thread that has never allocated, and from 5.3.1 on for none. This
 * one keeps no lock of jemalloc's. cache: of free extents, or another. */
static void note_free(const char *pac, const char *cache, size_t bytes)
{
	static MT_TLS size_t untold_bytes;

	if (mt_likely(HAS_FREE_EVENTS && mt_jemalloc_thread_has_allocated()) ||
	    cache - pac != mt_load_relaxed(&free_cache_offset))
		return;
	untold_bytes += bytes;
	if (untold_bytes < MT_JEMALLOC_FREE_EVENT_BYTES)
		return;
	bytes = untold_bytes;
	untold_bytes = 0;
	mt_jemalloc_note_frees(bytes);
}

/* An extent is free: a large block, or a slab whose blocks are all free. */
void __wrap_je_ecache_dalloc(void *thread, void *pac, void *hooks, void *cache, void *extent)
{
	size_t kept = mt_load_relaxed(&kept_bytes);
	size_t bytes = mt_jemalloc_extent_bytes(extent);

	mt_page_flags_freed(mt_jemalloc_extent_begin(extent), bytes);
	if (mt_unlikely(!mt_load_relaxed(&free_cache_offset)) && mt_jemalloc_has_own_arenas_only())
		mt_store_relaxed(&free_cache_offset, (char *)cache - (char *)pac);
	__real_je_ecache_dalloc(thread, pac, hooks, cache, extent);
	note_free(pac, cache, bytes);
	if (mt_likely(!kept))
		return;
	bytes += mt_add_relaxed(&freed_bytes, bytes);
	if (bytes >= kept && mt_state_is_own_process() && mt_jemalloc_thread_has_allocated() &&
	    takes_freed(kept) && !purge_all(PURGE_WAIT_NS, true))
		mt_store_relaxed(&freed_bytes, kept); /* the next free looks again */
}

/* Purges all arenas, and goes through what has been purged before. */
static void sweep(uint64_t patience_ns)
{
	uint64_t epoch = 1;

	if (!&__real_je_extent_dalloc_wrapper || !je_ecache_evict || !mt_load_relaxed(&some_hooks))
		return;
	for (unsigned int index = 0; index < je_manual_arena_base; index++) {
		void *arena = __atomic_load_n(&je_arenas[index], __ATOMIC_ACQUIRE);

		if (!arena || !mt_jemalloc_has_own_arenas_only() ||
		    !mt_purge_enter_within(patience_ns))
			continue;
		if (index == 0) /* the figures of all arenas */
			(void)je_mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
		mt_jemalloc_purge_arena(index);
		sweep_arena(arena, mt_jemalloc_retained_bytes(index));
		mt_purge_leave();
	}
}

void mt_jemalloc_purge_again(void)
{
	mt_assert(mt_thread_is_ours());
	mt_page_flags_all_may_be_huge();
	sweep(MT_NS_PER_S);
}

static MT_COLD void sweep_refused(unsigned int pause, uint64_t patience_ns)
{
	static _Atomic uint64_t last_ns, took_ns; /* of the last one; no ordering */
	uint64_t now = mt_os_now_ns(), began = mt_os_thread_cpu_ns();
	uint64_t last = mt_load_relaxed(&last_ns);

	if (now < last + pause * mt_load_relaxed(&took_ns) ||
	    !atomic_compare_exchange_strong_explicit(&last_ns, &last, now, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	mt_store_relaxed(&is_refused, false);
	sweep(patience_ns);
	mt_store_relaxed(&took_ns, mt_os_thread_cpu_ns() - began);
	mt_store_relaxed(&last_ns, mt_os_now_ns());
}

bool mt_jemalloc_unmaps(void)
{
	return mt_load_relaxed(&kept_bytes) != 0;
}

bool mt_jemalloc_unmap_use(size_t limit_bytes, int probe, bool at_once)
{
	size_t kept = limit_bytes / KEPT_SHARE, hole = limit_bytes / HOLES_MOST;

	mt_store_relaxed(&probe_protection, probe);
	if (kept < KEPT_LEAST_BYTES)
		kept = KEPT_LEAST_BYTES;
	hole = (hole / HOLE_LEAST_BYTES + 1) * HOLE_LEAST_BYTES;
	if (!&__real_je_extent_dalloc_wrapper || mt_exchange_relaxed(&kept_bytes, kept) == kept) {
		if (at_once && mt_load_relaxed(&is_refused))
			sweep_refused(SWEEP_PAUSE, PURGE_WAIT_NS);
		return false;
	}
	mt_store_relaxed(&least_bytes, hole);
	mt_store_relaxed(&freed_bytes, kept);
	if (at_once) {
		(void)purge_all(PURGE_WAIT_NS, false);
		sweep(PURGE_WAIT_NS);
	}
	return true;
}

/* ---- an allocation that fails ---- */

/* Returns whether it may succeed now: what other arenas keep free counts against the limit, too.
 * Without a worker nobody has seen a limit that another process has set. */
static MT_COLD bool makes_room(size_t bytes, unsigned int turn)
{
	size_t kept = mt_load_relaxed(&kept_bytes);
	uint64_t patience_ns = bytes >= mt_load_relaxed(&least_bytes) ? ROOM_WAIT_NS : 0;

	if (!kept && turn == 0 && mt_state_is_own_process())
		return mt_address_space_follow();
	if (turn > 1 || bytes / KEPT_SHARE >= kept || !mt_state_is_own_process() ||
	    !mt_jemalloc_thread_has_allocated())
		return false;
	if (turn == 0 && takes_freed(bytes))
		(void)purge_all(patience_ns, false);
	else
		sweep_refused(SWEEP_PAUSE_FAILED, patience_ns);
	return true;
}

/* A fault for each page of a growing heap costs a quarter more than one call for 16 of them. */
struct mt_extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t bytes, size_t alignment,
				     bool slab, unsigned int size_class, bool zero, bool guarded,
				     bool *out_deferred)
{
	struct mt_extent *extent;

	mt_jemalloc_thread_grows = false;
	extent = __real_je_pa_alloc(thread, shard, bytes, alignment, slab, size_class, zero,
				    guarded, out_deferred);
	for (unsigned int turn = 0; mt_unlikely(!extent) && makes_room(bytes, turn); turn++)
		extent = __real_je_pa_alloc(thread, shard, bytes, alignment, slab, size_class, zero,
					    guarded, out_deferred);
	if (extent && mt_jemalloc_thread_grows && slab && size_class <= AHEAD_CLASS_MAX &&
	    grown_bytes >= AHEAD_LEAST_BYTES && !mt_load_relaxed(&cannot_populate) &&
	    mt_jemalloc_has_own_arenas_only() && is_rest_behind(extent))
		populate(thread, shard, size_class);
	return extent;
}

/* ---- pages that are zeroed ---- */

/* How jemalloc zeroes whole pages that it hands out again. Internal to jemalloc 5.3, src/ehooks.c;
 * a version without this function never calls ours. There the pages go back to the kernel: a fault
 * for each when it is touched costs several times what it costs to write zeros, and in a program
 * with threads all of them wait for the address space. tcmalloc, mimalloc and, within its heap,
 * glibc write zeros. */

/* More goes back to the kernel, since the program may use little of it; glibc maps a block of that
 * size again. */
#define WRITTEN_BYTES ((size_t)32 << 20)

void mt_je_ehooks_default_zero_impl(void *from, size_t bytes);

/* Whole pages, by the thread that allocates. */
void mt_je_ehooks_default_zero_impl(void *from, size_t bytes)
{
	if ((bytes <= WRITTEN_BYTES && !mt_jemalloc_reuse_is_sparse(bytes)) ||
	    mt_raw_syscall(SYS_madvise, from, bytes, MADV_DONTNEED) != 0)
		memset(from, 0, bytes);
}

/* ---- room for a mapping ---- */

void mt_jemalloc_unmap_refused(void)
{
	if (mt_load_relaxed(&kept_bytes))
		mt_store_relaxed(&is_full, true);
	mt_store_relaxed(&is_refused, true);
}

/* What is smaller any machine has; two calls are nothing beside filling it */
#define PROBED_BYTES (256u << 20)

/* If the kernel overcommits, jemalloc maps without reserve, and so gets what no machine has: a
 * program that libc would have told that there is no memory fills it, and is ended. So the kernel
 * is asked first with reserve, whatever its policy, for what is large. Not mapped so for good:
 * pages that are kept lie side by side, and fork refuses an area with reserve that is larger than
 * the machine. And for four fifths: a class of sizes is up to a quarter larger than what is asked
 * for. */
bool mt_jemalloc_kernel_has(size_t bytes, int protection, int flags)
{
	return mt_likely(bytes < PROBED_BYTES) || !(flags & MAP_NORESERVE) ||
	       can_map(bytes / 5 * 4, protection, flags & ~(MAP_NORESERVE | MAP_FIXED));
}
