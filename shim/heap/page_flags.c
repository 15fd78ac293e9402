#include "heap/page_flags.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "heap/brk_range.h"
#include "heap/ranges.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/raw_syscall.h"

/* of newer kernels than libc's headers */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define GUARD_INSTALL 102

/* what is purged in smaller pieces stays part of a core */
#define UNDUMPED_LEAST_BYTES (8u << 20)

_Atomic unsigned int mt_page_flags_count;
static _Atomic unsigned int undumped_count; /* counter, no ordering */

static struct mt_lock lock = MT_LOCK(page_flags);

/* Under the lock. */
static struct mt_ranges mapped;   /* by jemalloc */
static struct mt_ranges flagged;  /* replaced when it is free */
static struct mt_ranges undumped; /* purged and mapped: gcore would write it all */
static struct mt_ranges advised;  /* replaced when it is purged */

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
	atomic_store_explicit(&undumped_count, undumped.count, memory_order_relaxed);
	atomic_store_explicit(&mt_page_flags_count, flagged.count + advised.count,
			      memory_order_relaxed);
	mt_lock_unlock_noted(&lock, &is_ours);
}

/* ---- what jemalloc has ---- */

void mt_page_flags_mapped(const void *begin, size_t bytes)
{
	uintptr_t first = (uintptr_t)begin, end = first + bytes;

	enter();
	mt_ranges_add(&mapped, first, end);
	if (first < atomic_load_explicit(&lowest, memory_order_relaxed))
		atomic_store_explicit(&lowest, first, memory_order_relaxed);
	if (end > atomic_load_explicit(&highest, memory_order_relaxed))
		atomic_store_explicit(&highest, end, memory_order_relaxed);
	leave();
}

static void forget(uintptr_t begin, uintptr_t end)
{
	mt_ranges_remove(&flagged, begin, end);
	mt_ranges_remove(&advised, begin, end);
	mt_ranges_remove(&undumped, begin, end);
}

void mt_page_flags_unmapped(const void *begin, size_t bytes)
{

	enter();
	mt_ranges_remove(&mapped, (uintptr_t)begin, (uintptr_t)begin + bytes);
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
		return &advised;
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

/* A handler that has interrupted this thread's change of the sets goes unnoted. */
static MT_COLD void note(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	int kept = errno;

	if (is_ours)
		return;
	enter();
	if (mt_ranges_overlap(&mapped, begin, end) ||
	    mt_brk_range_overlaps((void *)begin, end - begin))
		mt_ranges_add(set, begin, end);
	leave();
	errno = kept;
}

void mt_page_flags_note(long number, long address, long bytes, long argument)
{
	uintptr_t page = mt_os_page_bytes();
	uintptr_t begin = (uintptr_t)address / page * page;
	uintptr_t end = ((uintptr_t)address + (uintptr_t)bytes + page - 1) / page * page;
	struct mt_ranges *set = set_of(number, argument);
	bool is_near = begin < atomic_load_explicit(&highest, memory_order_relaxed) &&
		       end > atomic_load_explicit(&lowest, memory_order_relaxed);

	if (set && end > begin && (is_near || mt_brk_range_overlaps((void *)begin, end - begin)))
		note(set, begin, end);
}

/* ---- what becomes of it ---- */

/* The range stays noted where the kernel refuses: it may not split a mapping. */
static bool replace(void *begin, size_t bytes)
{
	if (mt_raw_syscall(SYS_mmap, begin, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == -1)
		return false;
	forget((uintptr_t)begin, (uintptr_t)begin + bytes);
	return true;
}

static MT_COLD bool replace_noted(void *begin, size_t bytes, bool also_advised)
{
	uintptr_t first = (uintptr_t)begin, end = first + bytes;
	int kept = errno;
	bool is_replaced;

	enter();
	is_replaced = (mt_ranges_overlap(&flagged, first, end) ||
		       (also_advised && mt_ranges_overlap(&advised, first, end))) &&
		      replace(begin, bytes);
	leave();
	errno = kept;
	return is_replaced;
}

void mt_page_flags_freed(void *begin, size_t bytes)
{
	if (mt_unlikely(mt_page_flags_any()))
		(void)replace_noted(begin, bytes, false);
}

bool mt_page_flags_purged(void *begin, size_t bytes)
{
	return mt_unlikely(mt_page_flags_any()) && replace_noted(begin, bytes, true);
}

void mt_page_flags_leave_out(void *begin, size_t bytes)
{
	if (bytes < UNDUMPED_LEAST_BYTES ||
	    mt_raw_syscall(SYS_madvise, begin, bytes, MADV_DONTDUMP) != 0)
		return;
	enter();
	mt_ranges_add(&undumped, (uintptr_t)begin, (uintptr_t)begin + bytes);
	leave();
}

/* All of a range that was left out, up to a size, since small pieces come one after another. */
static MT_COLD void dump_again(uintptr_t begin, uintptr_t end)
{
	int kept = errno;

	enter();
	while (end - begin < UNDUMPED_LEAST_BYTES && mt_ranges_overlap(&undumped, end, end + 1))
		end += mt_os_page_bytes();
	if (mt_ranges_overlap(&undumped, begin, end)) {
		(void)mt_raw_syscall(SYS_madvise, begin, end - begin, MADV_DODUMP);
		mt_ranges_remove(&undumped, begin, end);
	}
	leave();
	errno = kept;
}

void mt_page_flags_used(void *begin, size_t bytes)
{
	if (mt_unlikely(atomic_load_explicit(&undumped_count, memory_order_relaxed)))
		dump_again((uintptr_t)begin, (uintptr_t)begin + bytes);
}

static void move(struct mt_ranges *set, uintptr_t to, uintptr_t from, size_t bytes)
{
	if (mt_ranges_overlap(set, from, from + bytes))
		mt_ranges_add(set, to, to + bytes);
}

void mt_page_flags_moved(void *to, const void *from, size_t bytes)
{
	if (mt_likely(!mt_page_flags_any()))
		return;
	enter();
	move(&flagged, (uintptr_t)to, (uintptr_t)from, bytes);
	move(&advised, (uintptr_t)to, (uintptr_t)from, bytes);
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
	mt_lock_reset(&lock);
}
