#include "python/object_pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/raw_syscall.h"

/* Since Linux 5.14; libc's headers may be older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* the least range worth having */
#define LEAST_RANGE_BYTES (16u << 20)
/* address space that becomes writable at once: the larger of this and an eighth of what is */
#define OPEN_STEP_PAGES 256u
/* pages that are made resident at once: a sixteenth of those in use, up to this */
#define MOST_POPULATED 64u
/* pages that one step of a purge takes off the list */
#define PURGE_STEP_PAGES 1024
#define EVENT_BYTES      (1u << 20)
#define WORD_PAGES       64

static struct mt_object_range range;
/* object_pages protects what follows. The counters are read without it: counter, no ordering. */
static struct mt_lock lock = MT_LOCK(object_pages);
static uint64_t *clean_bits; /* a bit for each page below the top that is clean */
static uint32_t clean_count;
static uint32_t clean_hint;                        /* no word before it has a bit */
static uint32_t dirty_first = MT_OBJECT_PAGE_NONE; /* a list by `next`, the last returned first */
static uint32_t open_count;                        /* pages that are writable */
static uint32_t page_count;                        /* pages of the range */
static _Atomic uint32_t top;                       /* pages that were ever populated or taken */
static _Atomic uint32_t dirty_count;
static _Atomic uint32_t used_count;
static _Atomic uint64_t taken_count;
static uint64_t told_count; /* taken_count at the last event */
static bool cannot_populate;

static uint32_t get(const _Atomic uint32_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set(_Atomic uint32_t *counter, uint32_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static char *address_of(uint32_t index)
{
	return range.base + ((size_t)index << MT_OBJECT_PAGE_SHIFT);
}

/* Keeps errno, as every call from inside an allocator. */
static int kernel(long number, void *address, size_t bytes, int argument)
{
	int kept = errno;
	int answer = mt_raw_syscall(number, address, bytes, argument) == 0 ? 0 : errno;

	errno = kept;
	return answer;
}

static void *map(size_t bytes, int protection)
{
	int kept = errno;
	long answer = mt_raw_syscall(SYS_mmap, NULL, bytes, protection,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = kept;
	return answer == -1 ? NULL : (void *)answer;
}

/* ---- the range ---- */

static size_t table_bytes(size_t pages)
{
	return pages * sizeof(struct mt_object_page);
}

/* One mapping: the range, the table, the bits. Only the range stays without access. */
static bool reserve(size_t bytes)
{
	size_t pages = bytes >> MT_OBJECT_PAGE_SHIFT;
	size_t beside = table_bytes(pages) + pages / 8;
	char *base = map(bytes + beside, PROT_NONE);

	if (!base)
		return false;
	if (kernel(SYS_mprotect, base + bytes, beside, PROT_READ | PROT_WRITE) != 0) {
		(void)kernel(SYS_munmap, base, bytes + beside, 0);
		return false;
	}
	/* A purge of single pages would split huge ones. */
	(void)kernel(SYS_madvise, base, bytes, MADV_NOHUGEPAGE);
	range.base = base;
	range.bytes = bytes;
	range.table = (struct mt_object_page *)(void *)(base + bytes);
	clean_bits = (uint64_t *)(void *)(base + bytes + table_bytes(pages));
	page_count = (uint32_t)pages;
	return true;
}

bool mt_object_pages_start(size_t range_bytes, struct mt_object_range *out)
{
	if (mt_os_page_bytes() != MT_OBJECT_PAGE_BYTES)
		return false;
	while (range_bytes >= LEAST_RANGE_BYTES && !reserve(range_bytes))
		range_bytes /= 4;
	if (!range.base)
		return false;
	*out = range;
	return true;
}

/* Makes pages writable up to `end`. */
static bool open_to(uint32_t end)
{
	uint32_t step = open_count / 8 > OPEN_STEP_PAGES ? open_count / 8 : OPEN_STEP_PAGES;

	if (end <= open_count)
		return true;
	if (end < open_count + step)
		end = open_count + step;
	if (end > page_count)
		end = page_count;
	if (kernel(SYS_mprotect, address_of(open_count),
		   (size_t)(end - open_count) << MT_OBJECT_PAGE_SHIFT, PROT_READ | PROT_WRITE) != 0)
		return false;
	open_count = end;
	return true;
}

size_t mt_object_pages_shrink(size_t spare_bytes)
{
	uint32_t spare = (uint32_t)(spare_bytes >> MT_OBJECT_PAGE_SHIFT);
	uint32_t end;

	if (!range.base)
		return 0;
	mt_lock_lock(&lock);
	end = get(&top) + spare > open_count ? get(&top) + spare : open_count;
	if (end < page_count) {
		if (kernel(SYS_munmap, address_of(end),
			   (size_t)(page_count - end) << MT_OBJECT_PAGE_SHIFT, 0) == 0)
			page_count = end;
	}
	mt_lock_unlock(&lock);
	return (size_t)page_count << MT_OBJECT_PAGE_SHIFT;
}

/* ---- free pages; under the lock ---- */

static void push_dirty(uint32_t index)
{
	range.table[index].next = dirty_first;
	dirty_first = index;
	set(&dirty_count, get(&dirty_count) + 1);
}

static uint32_t pop_dirty(void)
{
	uint32_t index = dirty_first;

	dirty_first = range.table[index].next;
	set(&dirty_count, get(&dirty_count) - 1);
	return index;
}

static void set_clean(uint32_t index)
{
	uint32_t word = index / WORD_PAGES;

	clean_bits[word] |= 1ull << (index % WORD_PAGES);
	clean_count++;
	if (word < clean_hint)
		clean_hint = word;
}

/* The lowest run of clean pages, at most `most` and within one word. */
static uint32_t take_clean(uint32_t most, uint32_t *out_count)
{
	uint32_t word = clean_hint;
	uint32_t bit;
	uint32_t count = 0;

	while (!clean_bits[word])
		word++;
	clean_hint = word;
	bit = (uint32_t)__builtin_ctzll(clean_bits[word]);
	while (count < most && bit + count < WORD_PAGES &&
	       (clean_bits[word] >> (bit + count) & 1)) {
		clean_bits[word] &= ~(1ull << (bit + count));
		count++;
	}
	clean_count -= count;
	*out_count = count;
	return word * WORD_PAGES + bit;
}

/* Pages that were never used. */
static uint32_t take_unused(uint32_t most, uint32_t *out_count)
{
	uint32_t first = get(&top);
	uint32_t count = most < page_count - first ? most : page_count - first;

	if (!count || !open_to(first + count))
		return MT_OBJECT_PAGE_NONE;
	set(&top, first + count);
	*out_count = count;
	return first;
}

static void populate(uint32_t first, uint32_t count)
{
	if (count < 2 || cannot_populate)
		return;
	if (kernel(SYS_madvise, address_of(first), (size_t)count << MT_OBJECT_PAGE_SHIFT,
		   MADV_POPULATE_WRITE) == EINVAL)
		cannot_populate = true;
}

/* Returns one page and leaves the others of its run among the dirty ones. */
static uint32_t refill(void)
{
	uint32_t most = get(&used_count) / 16;
	uint32_t count = 0;
	uint32_t first;

	most = most > MOST_POPULATED ? MOST_POPULATED : most ? most : 1;
	if (cannot_populate)
		most = 1;
	first = clean_count ? take_clean(most, &count) : take_unused(most, &count);
	if (first == MT_OBJECT_PAGE_NONE)
		return first;
	populate(first, count);
	for (uint32_t i = count - 1; i > 0; i--)
		push_dirty(first + i);
	return first;
}

uint32_t mt_object_pages_take(uint64_t *out_fresh_bytes)
{
	uint64_t taken;
	uint32_t index;

	*out_fresh_bytes = 0;
	mt_lock_lock(&lock);
	index = dirty_first != MT_OBJECT_PAGE_NONE ? pop_dirty() : refill();
	if (index != MT_OBJECT_PAGE_NONE) {
		range.table[index].used = true;
		set(&used_count, get(&used_count) + 1);
		taken = atomic_load_explicit(&taken_count, memory_order_relaxed) + 1;
		atomic_store_explicit(&taken_count, taken, memory_order_relaxed);
		if (((taken - told_count) << MT_OBJECT_PAGE_SHIFT) >= EVENT_BYTES) {
			*out_fresh_bytes = (taken - told_count) << MT_OBJECT_PAGE_SHIFT;
			told_count = taken;
		}
	}
	mt_lock_unlock(&lock);
	return index;
}

void mt_object_pages_return(uint32_t index)
{
	mt_lock_lock(&lock);
	range.table[index].used = false;
	set(&used_count, get(&used_count) - 1);
	push_dirty(index);
	mt_lock_unlock(&lock);
}

/* ---- purge ---- */

/* Shell sort: pages come back mostly in order. */
static void sort(uint32_t *pages, uint32_t count)
{
	for (uint32_t gap = count / 2; gap > 0; gap = gap * 5 / 11) {
		for (uint32_t i = gap; i < count; i++) {
			uint32_t moved = pages[i];
			uint32_t at = i;

			for (; at >= gap && pages[at - gap] > moved; at -= gap)
				pages[at] = pages[at - gap];
			pages[at] = moved;
		}
	}
}

static void purge_runs(const uint32_t *pages, uint32_t count)
{
	uint32_t length;

	for (uint32_t i = 0; i < count; i += length) {
		for (length = 1; i + length < count && pages[i + length] == pages[i] + length;)
			length++;
		(void)kernel(SYS_madvise, address_of(pages[i]),
			     (size_t)length << MT_OBJECT_PAGE_SHIFT, MADV_DONTNEED);
	}
}

/* Takes pages off the list while it purges them, so that the lock is free meanwhile. */
static uint32_t purge_step(uint32_t most)
{
	static uint32_t pages[PURGE_STEP_PAGES]; /* under the purge lock */
	uint32_t count = 0;

	mt_lock_lock(&lock);
	while (count < most && dirty_first != MT_OBJECT_PAGE_NONE)
		pages[count++] = pop_dirty();
	mt_lock_unlock(&lock);
	sort(pages, count);
	purge_runs(pages, count);
	mt_lock_lock(&lock);
	for (uint32_t i = 0; i < count; i++)
		set_clean(pages[i]);
	mt_lock_unlock(&lock);
	return count;
}

uint64_t mt_object_pages_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void))
{
	uint32_t keep = (uint32_t)(keep_bytes >> MT_OBJECT_PAGE_SHIFT);
	uint32_t left = get(&dirty_count);
	uint64_t purged = 0;

	while (left > keep && enter()) {
		uint32_t wanted = left - keep;
		uint32_t count = purge_step(wanted < PURGE_STEP_PAGES ? wanted : PURGE_STEP_PAGES);

		leave();
		purged += count;
		left -= count ? count : left;
	}
	return purged << MT_OBJECT_PAGE_SHIFT;
}

/* ---- figures ---- */

void mt_object_pages_read(struct mt_object_pages_figures *out)
{
	out->used_bytes = (uint64_t)get(&used_count) << MT_OBJECT_PAGE_SHIFT;
	out->dirty_bytes = (uint64_t)get(&dirty_count) << MT_OBJECT_PAGE_SHIFT;
	out->taken_bytes = atomic_load_explicit(&taken_count, memory_order_relaxed)
			   << MT_OBJECT_PAGE_SHIFT;
	out->reserved_bytes = (uint64_t)page_count << MT_OBJECT_PAGE_SHIFT;
}

uint32_t mt_object_pages_top(void)
{
	return get(&top);
}

void mt_object_pages_fork_child(void)
{
	mt_lock_reset(&lock);
}
