#include "heap/page_flags.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/glibc.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"

/* ---- ranges ---- */

static uint32_t room_of(const struct mt_ranges *set)
{
	return set->mapped ? set->room : MT_RANGES_FIRST;
}

/* Returns whether the set has room for one more range. Maps twice the room if it has none. */
static bool has_room(struct mt_ranges *set)
{
	uint32_t held = room_of(set);
	size_t bytes = held * sizeof(struct mt_range);
	long fresh;

	mt_assert(set->count <= held && held <= MT_RANGES_MOST);
	if (mt_likely(set->count < held))
		return true;
	fresh = held < MT_RANGES_MOST
			? mt_raw_syscall_asm(SYS_mmap, 0, (long)(2 * bytes), PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
			: -ENOMEM;
	if (fresh < 0)
		return false;
	memcpy((void *)fresh, mt_page_ranges_at(set), bytes);
	if (set->mapped)
		(void)mt_raw_syscall_asm(SYS_munmap, (long)set->mapped, (long)bytes, 0, 0, 0, 0);
	set->mapped = (struct mt_range *)fresh;
	set->room = 2 * held;
	return true;
}

/* Returns the first range that ends behind the address. */
static uint32_t find(const struct mt_ranges *set, uintptr_t address)
{
	const struct mt_range *at = mt_page_ranges_at(set);
	uint32_t low = 0, high = set->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (at[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	mt_assert(low == set->count || at[low].end > address);
	return low;
}

/* Removes the ranges from first up to end, and makes room for `room` in their place. Returns where
 * that is. */
static struct mt_range *replace(struct mt_ranges *set, uint32_t first, uint32_t end, uint32_t room)
{
	struct mt_range *at = mt_page_ranges_at(set);

	mt_assert(first <= end && end <= set->count);
	mt_assert(set->count - (end - first) + room <= room_of(set));
	memmove(&at[first + room], &at[end], (set->count - end) * sizeof(at[0]));
	set->count = set->count - (end - first) + room;
	return &at[first];
}

/* Of two neighbours of a new range, at `next` and before it, extends the one that is nearer. */
static void join_nearest(struct mt_ranges *set, uint32_t next, uintptr_t begin, uintptr_t end)
{
	struct mt_range *at = mt_page_ranges_at(set);

	if (next == set->count || (next > 0 && begin - at[next - 1].end < at[next].begin - end))
		at[next - 1].end = end;
	else
		at[next].begin = begin;
}

void mt_page_ranges_add(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	bool is_growable = has_room(set);
	const struct mt_range *at = mt_page_ranges_at(set);
	uint32_t first = find(set, begin ? begin - 1 : 0);
	uint32_t behind = first;

	mt_assert(begin < end);
	while (behind < set->count && at[behind].begin <= end)
		behind++;
	if (behind == first && !is_growable) {
		join_nearest(set, first, begin, end);
		return;
	}
	if (behind > first && at[first].begin < begin)
		begin = at[first].begin;
	if (behind > first && at[behind - 1].end > end)
		end = at[behind - 1].end;
	*replace(set, first, behind, 1) = (struct mt_range){begin, end};
	mt_assert(first + 1 >= set->count || end < at[first + 1].begin);
}

void mt_page_ranges_remove(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	bool is_growable = has_room(set);
	struct mt_range *at = mt_page_ranges_at(set);
	uint32_t first = find(set, begin);
	uint32_t behind;

	if (first < set->count && at[first].begin < begin && at[first].end > end) {
		if (!is_growable)
			return;
		replace(set, first, first, 1)->begin = at[first + 1].begin;
		at[first].end = begin;
		at[first + 1].begin = end;
		return;
	}
	if (first < set->count && at[first].begin < begin)
		at[first++].end = begin;
	behind = first;
	while (behind < set->count && at[behind].end <= end)
		behind++;
	if (behind < set->count && at[behind].begin < end)
		at[behind].begin = end;
	replace(set, first, behind, 0);
}

bool mt_page_ranges_overlap(const struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	const struct mt_range *at = mt_page_ranges_at(set);
	uint32_t first = find(set, begin);

	return first < set->count && at[first].begin < end;
}

bool mt_page_ranges_clip(const struct mt_ranges *set, uintptr_t *begin, uintptr_t *end)
{
	const struct mt_range *at = mt_page_ranges_at(set);
	uint32_t first = find(set, *begin);
	uint32_t last = first;

	if (first == set->count || at[first].begin >= *end)
		return false;
	while (last + 1 < set->count && at[last + 1].begin < *end)
		last++;
	if (at[first].begin > *begin)
		*begin = at[first].begin;
	if (at[last].end < *end)
		*end = at[last].end;
	mt_assert(*begin < *end);
	return true;
}

/* of newer kernels than libc's headers */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define GUARD_INSTALL 102

/* Of x86-64, and of arm64 with pages of 4 KiB. A larger one is never made if a part of it must
 * not be huge. */
#define HUGE_BYTES ((uintptr_t)2 << 20)

/* Each mapping for large blocks may be two more in all, and the kernel allows 65,530. */
#define FRESH_MOST 1024u

/* what is purged in smaller pieces stays part of a core */
#define UNDUMPED_LEAST_BYTES (8u << 20)

_Atomic unsigned int mt_page_flags_count;
static _Atomic unsigned int undumped_count; /* counter, no ordering */

static struct mt_lock lock = MT_LOCK(page_flags);

/* Under the lock. */
static struct mt_ranges mapped;   /* by jemalloc */
static struct mt_ranges flagged;  /* replaced when it is free */
static struct mt_ranges undumped; /* purged and mapped: gcore would write it all */
static struct mt_ranges huge;     /* may have huge pages until it is purged */
static uint32_t fresh_count;      /* of mappings for large blocks, without those purged since */

/* The ends of all that jemalloc ever mapped: most calls of a program are for other memory. No
 * ordering. */
static _Atomic uintptr_t lowest = UINTPTR_MAX;
static _Atomic uintptr_t highest;

static MT_TLS bool is_ours; /* see mt_lock_lock_noted */

static void enter(void)
{
	mt_lock_lock_noted(&lock, &is_ours);
}

static void leave(void)
{
	mt_store_relaxed(&undumped_count, undumped.count);
	mt_store_relaxed(&mt_page_flags_count, flagged.count);
	mt_lock_unlock_noted(&lock, &is_ours);
}

/* A kernel without huge pages refuses. */
static void make_small(uintptr_t begin, uintptr_t end)
{
	(void)mt_raw_syscall(SYS_madvise, begin, end - begin, MADV_NOHUGEPAGE);
}

/* ---- what jemalloc has ---- */

void mt_page_flags_mapped(const void *begin, size_t bytes)
{
	uintptr_t first = (uintptr_t)begin, end = first + bytes;
	int kept = errno;

	make_small(first, end);
	errno = kept;
	enter();
	mt_page_ranges_add(&mapped, first, end);
	if (first < mt_load_relaxed(&lowest))
		mt_store_relaxed(&lowest, first);
	if (end > mt_load_relaxed(&highest))
		mt_store_relaxed(&highest, end);
	leave();
}

static void forget(uintptr_t begin, uintptr_t end)
{
	mt_assert(is_ours);
	mt_page_ranges_remove(&flagged, begin, end);
	mt_page_ranges_remove(&huge, begin, end);
	mt_page_ranges_remove(&undumped, begin, end);
}

void mt_page_flags_unmapped(const void *begin, size_t bytes)
{
	enter();
	mt_page_ranges_remove(&mapped, (uintptr_t)begin, (uintptr_t)begin + bytes);
	forget((uintptr_t)begin, (uintptr_t)begin + bytes);
	leave();
}

/* ---- what the program does ---- */

/* Returns the set that a call belongs to; NULL: its flags do not stay, or it sets what was before.
 */
static struct mt_ranges *set_of(long number, long argument)
{
	switch (number) {
	case SYS_mprotect:
		return argument == (PROT_READ | PROT_WRITE) ? NULL : &flagged;
	case SYS_madvise:
		break;
	default:
		return &flagged;
	}
	switch (argument) {
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
		return &huge;
	case MADV_DONTFORK:
	case MADV_WIPEONFORK:
	case MADV_DONTDUMP:
	case MADV_MERGEABLE:
	case GUARD_INSTALL:
		return &flagged;
	default:
		return NULL;
	}
}

/* By a call of the program's: a signal handler that interrupts it may allocate, and would wait for
 * the lock. A handler that has interrupted another change of the sets goes unnoted. */
static MT_COLD void note(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	int kept = errno;
	uint64_t signals;

	mt_assert(begin < end);
	mt_assert(set == &flagged || set == &huge);
	if (is_ours)
		return;
	signals = mt_os_block_signals();
	enter();
	if (mt_page_ranges_overlap(&mapped, begin, end) ||
	    mt_glibc_range_overlaps((void *)begin, end - begin))
		mt_page_ranges_add(set, begin, end);
	leave();
	mt_os_restore_signals(signals);
	errno = kept;
}

void mt_page_flags_note(long number, long address, long bytes, long argument)
{
	uintptr_t page = mt_os_page_bytes();
	uintptr_t begin = (uintptr_t)address / page * page;
	uintptr_t end = ((uintptr_t)address + (uintptr_t)bytes + page - 1) / page * page;
	struct mt_ranges *set = set_of(number, argument);
	bool is_near = begin < mt_load_relaxed(&highest) && end > mt_load_relaxed(&lowest);

	if (set && end > begin && (is_near || mt_glibc_range_overlaps((void *)begin, end - begin)))
		note(set, begin, end);
}

/* ---- what becomes of it ---- */

/* The new mapping has the system's setting for huge pages. */
static bool map_fresh(uintptr_t begin, uintptr_t end)
{
	return mt_raw_syscall(SYS_mmap, begin, end - begin, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != -1;
}

/* The range stays noted if the kernel refuses: it may not split a mapping. */
static MT_COLD bool replace_flagged(uintptr_t begin, uintptr_t end)
{
	int kept = errno;
	bool is_replaced;

	enter();
	is_replaced = mt_page_ranges_overlap(&flagged, begin, end) && map_fresh(begin, end);
	if (is_replaced) {
		make_small(begin, end);
		forget(begin, end);
	}
	leave();
	errno = kept;
	return is_replaced;
}

bool mt_page_flags_has(const void *begin, size_t bytes)
{
	bool has;

	enter();
	has = mt_page_ranges_overlap(&flagged, (uintptr_t)begin, (uintptr_t)begin + bytes);
	leave();
	return has;
}

void mt_page_flags_freed(void *begin, size_t bytes)
{
	if (mt_unlikely(mt_page_flags_any()))
		(void)replace_flagged((uintptr_t)begin, (uintptr_t)begin + bytes);
}

void mt_page_flags_allow_huge(void *begin, size_t bytes)
{
	uintptr_t first = (uintptr_t)begin, end = first + bytes;
	int kept = errno;
	bool is_allowed;

	mt_assert(first % mt_os_page_bytes() == 0 && bytes > 0);
	enter();
	is_allowed = fresh_count < FRESH_MOST && map_fresh(first, end);
	mt_assert(fresh_count <= FRESH_MOST);
	if (is_allowed) {
		fresh_count++;
		forget(first, end);
		mt_page_ranges_add(&huge, first, end);
	}
	leave();
	if (!is_allowed)
		mt_page_flags_used(begin, bytes);
	errno = kept;
}

void mt_page_flags_all_may_be_huge(void)
{
	enter();
	for (uint32_t i = 0; i < mapped.count; i++)
		mt_page_ranges_add(&huge, mt_page_ranges_at(&mapped)[i].begin,
				   mt_page_ranges_at(&mapped)[i].end);
	leave();
}

/* MADV_FREE of a part splits a huge page; MADV_DONTNEED only unmaps that part, and the whole stays
 * charged to the cgroup. Source: madvise_free_huge_pmd() in mm/huge_memory.c. */
static void split_ends(uintptr_t begin, uintptr_t end)
{
	uintptr_t first = (begin + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	uintptr_t last = end & ~(HUGE_BYTES - 1);

	mt_assert(begin < end);
	if (first > last)
		first = last = end;
	if (first > begin)
		(void)mt_raw_syscall(SYS_madvise, begin, first - begin, MADV_FREE);
	if (end > last)
		(void)mt_raw_syscall(SYS_madvise, last, end - last, MADV_FREE);
}

/* khugepaged fills what is purged of a huge page again, unless a part of the page must be small.
 * Small holes: in whole huge pages, so that many of them are one mapping. Returns whether any was
 * noted. */
static bool end_huge(uintptr_t begin, uintptr_t end)
{
	uintptr_t around = end - begin < HUGE_BYTES ? HUGE_BYTES - 1 : 0;
	uintptr_t first = begin & ~around, last = (end + around) & ~around;
	bool is_noted;

	enter();
	is_noted = mt_page_ranges_overlap(&huge, begin, end) &&
		   mt_page_ranges_clip(&huge, &first, &last);
	if (is_noted)
		mt_page_ranges_remove(&huge, first, last);
	leave();
	if (!is_noted)
		return false;
	mt_assert(first < last);
	split_ends(begin, end);
	make_small(first, last);
	return true;
}

/* If they are many a core dump has them no more, until they are used again. */
static void leave_out(void *begin, size_t bytes)
{
	if (bytes < UNDUMPED_LEAST_BYTES ||
	    mt_raw_syscall(SYS_madvise, begin, bytes, MADV_DONTDUMP) != 0)
		return;
	enter();
	mt_page_ranges_add(&undumped, (uintptr_t)begin, (uintptr_t)begin + bytes);
	leave();
}

/* A mapping that was made for a large block joins its neighbours only as a fresh one. */
static void join(uintptr_t begin, uintptr_t end)
{
	make_small(begin, end);
	enter();
	fresh_count -= fresh_count > 0;
	leave();
}

int mt_page_flags_purge(void *begin, size_t bytes)
{
	uintptr_t first = (uintptr_t)begin, end = first + bytes;
	bool was_huge = end_huge(first, end);

	if (!(mt_unlikely(mt_page_flags_any()) && replace_flagged(first, end))) {
		if (mt_raw_syscall(SYS_madvise, begin, bytes, MADV_DONTNEED) != 0)
			return -1;
		if (was_huge && bytes >= HUGE_BYTES && map_fresh(first, end))
			join(first, end);
	}
	leave_out(begin, bytes);
	return 0;
}

/* All of a range that was left out, up to a size, since small pieces come one after another. */
static MT_COLD void dump_again(uintptr_t begin, uintptr_t end)
{
	int kept = errno;

	enter();
	while (end - begin < UNDUMPED_LEAST_BYTES &&
	       mt_page_ranges_overlap(&undumped, end, end + 1))
		end += mt_os_page_bytes();
	if (mt_page_ranges_overlap(&undumped, begin, end)) {
		(void)mt_raw_syscall(SYS_madvise, begin, end - begin, MADV_DODUMP);
		mt_page_ranges_remove(&undumped, begin, end);
	}
	leave();
	errno = kept;
}

void mt_page_flags_used(void *begin, size_t bytes)
{
	if (mt_unlikely(mt_load_relaxed(&undumped_count)))
		dump_again((uintptr_t)begin, (uintptr_t)begin + bytes);
}

/* What stays behind is a fresh mapping. */
void mt_page_flags_moved(void *to, const void *from, size_t bytes)
{
	uintptr_t source = (uintptr_t)from, target = (uintptr_t)to;

	enter();
	if (mt_page_ranges_overlap(&flagged, source, source + bytes))
		mt_page_ranges_add(&flagged, target, target + bytes);
	mt_page_ranges_add(&huge, source, source + bytes);
	mt_page_ranges_add(&huge, target, target + bytes);
	leave();
}

/* ---- fork ---- */

void mt_page_flags_fork_prepare(void)
{
	mt_lock_fork_prepare(&lock, is_ours);
}

void mt_page_flags_fork_parent(void)
{
	mt_lock_fork_parent(&lock, is_ours);
}

void mt_page_flags_fork_child(void)
{
	mt_lock_fork_child(&lock, is_ours);
}
