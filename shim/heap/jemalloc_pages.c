#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "core/services.h"
#include "core/thread.h"
#include "heap/jemalloc_internal.h"
#include "heap/page_flags.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"

/* ---- extents ---- */

/* room for jemalloc's cache of what it has looked up, which has some 400 */
#define CONTEXT_BYTES 1024

static const uint64_t *leaf_of(void *thread, const void *address, bool make_missing)
{
	uint64_t context[CONTEXT_BYTES / sizeof(uint64_t)] = {0};

	if (!je_arena_emap_global || !&__real_je_rtree_leaf_elm_lookup_hard)
		return NULL;
	return __real_je_rtree_leaf_elm_lookup_hard(thread, je_arena_emap_global, context,
						    (uintptr_t)address, false, make_missing);
}

uint64_t mt_jemalloc_extent_leaf(const void *address)
{
	const uint64_t *leaf = leaf_of(NULL, address, false);

	return leaf ? __atomic_load_n(leaf, __ATOMIC_ACQUIRE) : 0;
}

bool mt_jemalloc_extent_make_leaf(void *thread, const void *address)
{
	return leaf_of(thread, address, true) != NULL;
}

#define SOON_NS (10 * MT_NS_PER_MS)

/* Internal to jemalloc 5: src/jemalloc.c, src/ctl.c, src/arena.c. Weak: another version may lack
 * them. */
extern void je_arena_basic_stats_merge(void *thread, void *arena, unsigned int *threads,
				       const char **dss, ssize_t *dirty_decay_ms,
				       ssize_t *muzzy_decay_ms, size_t *active, size_t *dirty,
				       size_t *muzzy) __attribute__((weak));

struct pages {
	size_t active, dirty, muzzy;
};

/* The purge under way: its arena, and how many free pages that had. Written under the purge lock;
 * counters, no ordering. */
static _Atomic unsigned int purged_arena;
static _Atomic size_t purged_pages; /* 0: there is none */

static bool is_there(void)
{
	return je_arenas && &je_manual_arena_base && je_narenas_total_get &&
	       je_arena_basic_stats_merge && je_arena_decay;
}

static void add_pages(void *arena, struct pages *sum)
{
	unsigned int threads = 0;
	const char *dss;
	ssize_t decay_ms[2];

	je_arena_basic_stats_merge(NULL, arena, &threads, &dss, &decay_ms[0], &decay_ms[1],
				   &sum->active, &sum->dirty, &sum->muzzy);
}

static void add_arena(unsigned int index, struct pages *sum)
{
	void *arena = __atomic_load_n(&je_arenas[index], __ATOMIC_ACQUIRE);

	if (arena)
		add_pages(arena, sum);
}

uint64_t mt_jemalloc_pages_free_bytes(void *arena)
{
	struct pages pages = {0};

	if (!is_there())
		return UINT64_MAX;
	add_pages(arena, &pages);
	return (pages.dirty + pages.muzzy) * mt_jemalloc_page_bytes();
}

/* The base is 0 until jemalloc has begun. */
static bool are_known(void)
{
	return is_there() && je_manual_arena_base && mt_jemalloc_has_own_arenas_only();
}

/* A purge takes all free pages of its arena off the counters before it returns the first of them to
 * the kernel. A thread that has no CPU meanwhile must not make others believe that there is room.
 */
static size_t still_to_go(unsigned int index, const struct pages *arena)
{
	size_t all = mt_load_relaxed(&purged_pages);
	size_t now = arena->dirty + arena->muzzy;

	if (index != mt_load_relaxed(&purged_arena))
		return 0;
	return all > now ? all - now : 0;
}

bool mt_jemalloc_pages(struct mt_heap_figures *out)
{
	uint64_t page = mt_jemalloc_page_bytes();
	struct mt_object_heap_figures objects;
	struct pages sum = {0};

	if (!are_known())
		return false;
	for (unsigned int index = 0; index < je_manual_arena_base; index++) {
		struct pages arena = {0};

		add_arena(index, &arena);
		sum.active += arena.active;
		sum.dirty += arena.dirty + still_to_go(index, &arena);
		sum.muzzy += arena.muzzy;
	}
	mt_object_heap_read(&objects, false);
	out->active_bytes = sum.active * page + objects.used_bytes;
	out->dirty_bytes = (sum.dirty + sum.muzzy) * page + objects.dirty_bytes;
	return true;
}

uint64_t mt_jemalloc_retained_bytes(unsigned int index)
{
	size_t mib[4], length = 4, value = 0;
	size_t bytes = sizeof(value);

	mt_assert(mt_lock_is_held(MT_RANK_purge));
	if (je_mallctlnametomib("stats.arenas.0.retained", mib, &length) != 0)
		return 0;
	mib[2] = index;
	return je_mallctlbymib(mib, length, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

/* ---- returning them ---- */

static void purge_by_mallctl(unsigned int index)
{
	size_t mib[3];
	size_t length = 3;

	if (je_mallctlnametomib("arena.0.purge", mib, &length) != 0)
		return;
	mib[1] = index;
	(void)je_mallctlbymib(mib, 3, NULL, NULL, NULL, 0);
}

/* What that mallctl calls. Not as the calling thread: it may have allocated nothing (see
 * mt_jemalloc_thread_has_allocated). */
static void purge_known(unsigned int index)
{
	void *arena = __atomic_load_n(&je_arenas[index], __ATOMIC_ACQUIRE);
	struct pages pages = {0};

	if (!arena)
		return;
	add_pages(arena, &pages);
	mt_store_relaxed(&purged_pages, pages.dirty + pages.muzzy);
	mt_store_relaxed(&purged_arena, index);
	je_arena_decay(NULL, arena, false, true);
	mt_jemalloc_pages_fork_child();
}

void mt_jemalloc_purge_arena(unsigned int index)
{
	mt_assert(mt_lock_is_held(MT_RANK_purge));
	if (are_known())
		purge_known(index);
	else
		purge_by_mallctl(index);
}

void mt_jemalloc_purge_arena_soon(unsigned int index)
{
	if (!mt_purge_enter_within(SOON_NS))
		return;
	mt_jemalloc_purge_arena(index);
	mt_purge_leave();
}

void mt_jemalloc_pages_fork_child(void)
{
	mt_store_relaxed(&purged_pages, 0);
}

unsigned int mt_jemalloc_arenas_count(void)
{
	unsigned int count = 0;
	size_t bytes = sizeof(count);

	return je_mallctl("arenas.narenas", &count, &bytes, NULL, 0) == 0 ? count : 0;
}

/* The sum over all arenas, and the arena that has most. */
static size_t free_pages(unsigned int *out_most)
{
	size_t sum = 0;
	size_t most = 0;

	for (unsigned int index = 0; index < je_manual_arena_base; index++) {
		struct pages pages = {0};

		add_arena(index, &pages);
		sum += pages.dirty + pages.muzzy;
		if (pages.dirty + pages.muzzy > most) {
			most = pages.dirty + pages.muzzy;
			*out_most = index;
		}
	}
	return sum;
}

/* A waiting thread gets the lock after each arena. One round: pages become free faster than
 * they go where other threads free a lot. */
static enum mt_reclaimed reclaim_largest(uint64_t keep_bytes, uint64_t patience_ns)
{
	enum mt_reclaimed got = MT_RECLAIMED_NOTHING;

	for (unsigned int turn = 0; turn < je_manual_arena_base; turn++) {
		unsigned int index = 0;
		bool is_over;

		if (!mt_purge_enter_within(patience_ns))
			return got == MT_RECLAIMED_SOME ? got : MT_RECLAIMED_BUSY;
		is_over = free_pages(&index) * mt_jemalloc_page_bytes() > keep_bytes;
		if (is_over)
			mt_jemalloc_purge_arena(index);
		mt_purge_leave();
		if (!is_over)
			break;
		got = MT_RECLAIMED_SOME;
	}
	return got;
}

enum mt_reclaimed mt_jemalloc_reclaim(uint64_t keep_bytes, uint64_t patience_ns)
{
	if (are_known())
		return reclaim_largest(keep_bytes, patience_ns);
	/* one that only frees */
	if (!mt_thread_is_ours() && !mt_jemalloc_thread_has_allocated())
		return MT_RECLAIMED_NOTHING;
	for (unsigned int index = 0; index < mt_jemalloc_arenas_count(); index++) {
		if (!mt_purge_enter_within(patience_ns))
			return index ? MT_RECLAIMED_SOME : MT_RECLAIMED_BUSY;
		mt_jemalloc_purge_arena(index);
		mt_purge_leave();
	}
	return MT_RECLAIMED_SOME;
}

/* ---- blocks of each size ---- */

/* How many blocks of each size are live, by jemalloc's own count. */

#define MIB_LENGTH    6
#define LARGE_CLASSES 256 /* jemalloc 5.3 has 196 */

/* One of the two kinds of classes: small ones, in slabs, and large ones, each an extent of its own.
 * 4096 is MALLCTL_ARENAS_ALL: all arenas merged. */
struct kind {
	const char *count, *block, *live;
	size_t block_at, live_at; /* where the class's number stands in the resolved name */
};

static const struct kind kinds[] = {
	{"arenas.nbins", "arenas.bin.0.size", "stats.arenas.4096.bins.0.curregs", 2, 4},
	{"arenas.nlextents", "arenas.lextent.0.size", "stats.arenas.4096.lextents.0.curlextents", 2,
	 4},
};

struct name {
	size_t mib[MIB_LENGTH];
	size_t length;
};

static bool resolve(const char *text, struct name *out)
{
	out->length = MIB_LENGTH;
	return je_mallctlnametomib(text, out->mib, &out->length) == 0;
}

static size_t ask(const struct name *name)
{
	size_t value = 0;
	size_t bytes = sizeof(value);

	return je_mallctlbymib(name->mib, name->length, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

static uint32_t read_kind(const struct kind *kind, struct mt_heap_class *out, uint32_t most)
{
	unsigned int count = 0;
	size_t bytes = sizeof(count);
	uint32_t filled = 0;
	struct name block, live;

	if (je_mallctl(kind->count, &count, &bytes, NULL, 0) != 0 ||
	    !resolve(kind->block, &block) || !resolve(kind->live, &live))
		return 0;
	mt_assert(kind->block_at < block.length && kind->live_at < live.length);
	for (unsigned int i = 0; i < count && filled < most; i++) {
		block.mib[kind->block_at] = live.mib[kind->live_at] = i;
		out[filled] = (struct mt_heap_class){.block_bytes = ask(&block),
						     .live_count = ask(&live)};
		filled += out[filled].live_count > 0;
	}
	return filled;
}

uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most)
{
	uint64_t epoch = 1;
	size_t bytes = sizeof(epoch);
	uint32_t filled = 0;

	if (je_mallctl("epoch", &epoch, &bytes, &epoch, bytes) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		filled += read_kind(&kinds[i], out + filled, most - filled);
	return filled;
}

void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes)
{
	struct mt_heap_class classes[LARGE_CLASSES];
	uint32_t filled = read_kind(&kinds[1], classes, LARGE_CLASSES);

	*out_count = *out_bytes = 0;
	for (uint32_t i = 0; i < filled; i++) {
		if (classes[i].block_bytes < least_bytes)
			continue;
		*out_count += classes[i].live_count;
		*out_bytes += classes[i].live_count * classes[i].block_bytes;
	}
}

/* ---- the move of large blocks ---- */

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* in headers from glibc 2.32 on */
#endif

/* Of one block, that are moved; the rest is copied. Blocks that grow by turns have more than 8, and
 * each takes some us. */
#define MAPPINGS_MOST 256
#define PIECE_BYTES   (4u << 20)
#define PURGE_WAIT_NS (10 * MT_NS_PER_MS)

#define LEAST_PAGE_BYTES 4096

/* Whether most of a block below MT_JEMALLOC_MOVE_ALWAYS is not resident. Source: mincore(2). */
static bool is_sparse(const void *ptr, size_t bytes)
{
	unsigned char is_resident[MT_JEMALLOC_MOVE_ALWAYS / LEAST_PAGE_BYTES];
	size_t page = mt_os_page_bytes(), ahead = (uintptr_t)ptr % page;
	size_t pages = (ahead + bytes) / page, count = 0;

	mt_assert(pages <= sizeof(is_resident));
	if (mt_raw_syscall(SYS_mincore, (const char *)ptr - ahead, pages * page, is_resident) != 0)
		return false;
	for (size_t i = 0; i < pages; i++)
		count += is_resident[i] & 1;
	return count < pages / 2;
}

bool mt_jemalloc_is_move(void *ptr, size_t bytes)
{
	size_t held = je_malloc_usable_size(ptr);

	return held >= MT_JEMALLOC_MOVE_LEAST && bytes > held &&
	       je_xallocx(ptr, bytes, 0, 0) < bytes &&
	       (held >= MT_JEMALLOC_PAGE_LEAST || is_sparse(ptr, held));
}

/* Whether the pages are there already, and the block's own too: then a copy is faster, and no page
 * more is resident. */
static bool is_better_copied(const void *fresh, const void *ptr, size_t held)
{
	return held >= MT_JEMALLOC_PAGE_LEAST && held < MT_JEMALLOC_MOVE_ALWAYS &&
	       !is_sparse(fresh, held) && !is_sparse(ptr, held);
}

/* The whole pages of [from, to), whose content is needed no more. */
static void drop(char *from, char *to)
{
	uintptr_t page = mt_os_page_bytes();
	uintptr_t first = ((uintptr_t)from + page - 1) / page * page;
	uintptr_t end = (uintptr_t)to / page * page;

	if (end > first)
		(void)mt_raw_syscall(SYS_madvise, first, end - first, MADV_DONTNEED);
}

/* A page that the program has never written reads as zeros, without becoming resident. */
static bool is_zero(const char *from, size_t bytes)
{
	return !*from && memcmp(from, from + 1, bytes - 1) == 0;
}

/* Zeros are not written if the new pages are fresh: that would make a hole resident. */
static void copy(char *to, const char *from, size_t bytes)
{
	size_t page = mt_os_page_bytes();
	bool is_fresh = mt_raw_syscall(SYS_madvise, to, bytes / page * page, MADV_DONTNEED) == 0;

	for (size_t at = 0; at < bytes; at += page) {
		size_t piece = bytes - at < page ? bytes - at : page;

		if (!is_fresh || piece < page || !is_zero(from + at, page))
			memcpy(to + at, from + at, piece);
	}
}

/* to: begins at a page */
static void copy_pieces(char *to, char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
		size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

		copy(to + at, from + at, piece);
		drop(from + at, from + at + piece);
	}
}

/* The kernel moves the pages: nothing is copied, and no page faults again. The old range stays
 * mapped and empty, as jemalloc expects. By way of an address that the kernel chooses: a call that
 * names the target unmaps it before it looks at the source, and another thread's mapping could take
 * its place if the source is then refused. more: bytes of the block behind the target, which
 * become part of the same mapping: a block that grows again is then one. Answers 0 or errno;
 * EFAULT: the source is several mappings. Source: mremap(2), MREMAP_DONTUNMAP since Linux 5.7. */
static int move_pages(char *to, char *from, size_t bytes, size_t more)
{
	char *between = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	if (between == MAP_FAILED)
		return errno;
	if (mremap(between, bytes, bytes + more, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
		return 0;
	/* does nothing if the target is still mapped */
	(void)mmap(to, bytes + more, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	copy_pieces(to, between, bytes);
	(void)munmap(between, bytes);
	return 0;
}

static bool is_page(const char *address)
{
	return (uintptr_t)address % mt_os_page_bytes() == 0;
}

/* Moves what lies in the first of the source's mappings: a block that was moved once and has grown
 * in place since is several. The border is found by halves. Returns bytes; 0: none can be moved. */
static size_t move_first_mapping(char *to, char *from, size_t bytes, size_t more)
{
	size_t page = mt_os_page_bytes();
	size_t done = 0;
	size_t piece = bytes;

	for (;;) {
		int error =
			move_pages(to + done, from + done, piece, done + piece == bytes ? more : 0);

		if (!error)
			done += piece;
		if ((error && error != EFAULT) || piece == page || done == bytes)
			return done;
		piece = (piece / 2 + page - 1) / page * page;
		if (piece > bytes - done)
			piece = bytes - done;
	}
}

/* The kernel keeps the old range apart from its neighbours if it was itself moved there: a fresh
 * mapping in its place becomes one with them, and the number of mappings stays bounded. */
static void renew(char *from, size_t bytes)
{
	char *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fresh != MAP_FAILED &&
	    mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
		(void)munmap(fresh, bytes);
}

/* A fork in the middle would leave the child the pages where they are between, for ever: it waits.
 */
static size_t move_mappings(char *to, char *from, size_t bytes, size_t more)
{
	bool holds_fork = mt_purge_enter_within(PURGE_WAIT_NS);
	size_t at = 0;

	for (size_t moved = 1, count = 0; moved && at < bytes && count < MAPPINGS_MOST;
	     at += moved, count++)
		moved = move_first_mapping(to + at, from + at, bytes - at, more);
	if (at == bytes)
		renew(from, bytes);
	if (holds_fork)
		mt_purge_leave();
	return at;
}

static void move(char *to, char *from, size_t bytes, size_t more)
{
	size_t moved = 0;

	mt_assert(is_page(to));
	if (is_page(from) && bytes % mt_os_page_bytes() == 0)
		moved = move_mappings(to, from, bytes, more);
	if (moved)
		mt_page_flags_moved(to, from, moved);
	copy_pieces(to + moved, from + moved, bytes - moved);
}

static unsigned int arena_of(void *block)
{
	unsigned int index = UINT_MAX;
	size_t length = sizeof(index);

	(void)je_mallctl("arenas.lookup", &index, &length, &block, sizeof(block));
	return index;
}

/* The allocation comes before the first page is moved: if it brings the process near a limit, free
 * memory goes back now. */
void *mt_jemalloc_move(void *ptr, size_t bytes)
{
	int kept = errno;
	size_t page = mt_os_page_bytes(), held;
	/* the flag is jemalloc's MALLOCX_LG_ALIGN */
	char *fresh = je_mallocx(bytes, __builtin_ctzl(page));
	unsigned int arena = UINT_MAX;

	if (!fresh)
		return NULL;
	held = je_malloc_usable_size(ptr);
	if (is_better_copied(fresh, ptr, held)) {
		memcpy(fresh, ptr, held);
	} else {
		move(fresh, ptr, held, (je_malloc_usable_size(fresh) - held) / page * page);
		arena = arena_of(ptr);
	}
	je_free(ptr);
	/* otherwise jemalloc counts the old block's pages as dirty, and direct reclaim
	 * overestimates the memory that it can return */
	if (arena != UINT_MAX)
		mt_jemalloc_purge_arena_soon(arena);
	errno = kept;
	return fresh;
}
