/* python/object_pages.c -- the pages of the heap for small Python objects (python/objects.h). */
#include <errno.h>
#include <sys/mman.h>

#include "python/objects.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

/* Since Linux 5.14; libc's headers may be older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* the least range worth having */
#define LEAST_RANGE_BYTES (16u << 20)
/* address space that becomes writable at once: the larger of this and an eighth of what is */
#define OPEN_STEP_BYTES (1u << 20)
/* Pages are handed out to one class in groups of neighbours: the processor prefetches along
 * addresses, and loses a tenth of the speed if each page lies elsewhere. */
#define GROUP_PAGES 16u
/* pages that are made resident at once: 1 for each so many in the range, up to a group */
#define POPULATE_SHARE 512u
/* the share of RLIMIT_DATA that free pages may take */
#define KEPT_SHARE       64
#define EVENT_BYTES      (1u << 20)
#define PURGE_STEP_WORDS 16u
#define WORD_PAGES       64u
#define WORD_GROUPS      (WORD_PAGES / GROUP_PAGES)
#define NO_WORD          UINT32_MAX
#define NO_GROUP         UINT32_MAX

#define PAGES_OF(bytes) ((uint32_t)((bytes) >> MT_OBJECT_PAGE_SHIFT))
#define BYTES_OF(pages) ((size_t)(pages) << MT_OBJECT_PAGE_SHIFT)

static struct mt_object_range range;
static _Atomic uint32_t range_pages; /* what is left of the range; no ordering */
static _Atomic uint32_t top;         /* pages that were ever taken or made resident; no ordering */

/* A bit for each page: it is free and resident; it is free and not resident. Set with release once
 * nobody uses the page, cleared with acquire by who takes it. */
static _Atomic uint64_t *dirty_bits;
static _Atomic uint64_t *clean_bits;
/* the lowest word of clean_bits that a purge has added to; NO_WORD: none. Pairs with them. */
static _Atomic uint32_t clean_added = NO_WORD;

/* Under RLIMIT_DATA, which counts writable pages: a bit for each word of the two maps whose pages
 * are all clean, and not writable. Set while the purge has the whole word, cleared by who has taken
 * a page of it. */
static _Atomic uint64_t *closed_bits;
static _Atomic uint32_t kept_pages; /* dirty ones that may stay; 0: there is no limit */

/* ---- what only the thread that takes pages uses ---- */
static uint32_t claimed[MT_OBJECT_CLASS_COUNT]; /* the group of each class; NO_GROUP: none */
static uint32_t dirty_hint;                     /* no word before it has a bit */
static uint32_t clean_hint;                     /* likewise, but for clean_added */
static uint32_t writable;                       /* pages from the first one on that are writable */
static bool cannot_populate;
static bool is_refused; /* the kernel opens no more pages */
/* returned_count at the last purge for a limit, and at the last event. No ordering: two
 * interpreters may be here at once. */
static _Atomic uint64_t checked_count, told_count;
static _Atomic uint64_t taken_count;    /* pages ever taken; counter, no ordering */
static _Atomic uint64_t returned_count; /* and ever returned; likewise */
static uint64_t event_count;            /* taken_count at the last event */

static uint32_t get(const _Atomic uint32_t *counter)
{
	return mt_load_relaxed(counter);
}

static char *address_of(uint32_t index)
{
	return range.base + BYTES_OF(index);
}

/* Returns 0 or an error number. */
static int kernel(long number, void *address, size_t bytes, int argument)
{
	int kept = errno;
	int error = mt_raw_syscall(number, address, bytes, argument) == 0 ? 0 : errno;

	errno = kept;
	return error;
}

static char *map(size_t bytes)
{
	int kept = errno;
	long address = mt_raw_syscall(SYS_mmap, NULL, bytes, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	errno = kept;
	return address == -1 ? NULL : (char *)address;
}

/* ---- the range ---- */

static size_t table_bytes(uint32_t pages)
{
	size_t bytes = pages * sizeof(struct mt_object_page);

	return (bytes + MT_OBJECT_PAGE_BYTES - 1) & ~(MT_OBJECT_PAGE_BYTES - 1);
}

/* One mapping: the range, the table, three bit maps. Range and table become writable as they are
 * used, and part of a core dump. */
static bool reserve(size_t bytes)
{
	size_t bits_bytes = PAGES_OF(bytes) / 8 + sizeof(uint64_t); /* a word more than pages */
	size_t all_bits_bytes = 2 * bits_bytes + bits_bytes / WORD_PAGES + sizeof(uint64_t);
	size_t all_bytes = bytes + table_bytes(PAGES_OF(bytes)) + all_bits_bytes;
	char *base = map(all_bytes);
	char *bits = base + (all_bytes - all_bits_bytes);

	if (!base)
		return false;
	mt_assert((uintptr_t)base % MT_OBJECT_PAGE_BYTES == 0);
	if (kernel(SYS_mprotect, bits, all_bits_bytes, PROT_READ | PROT_WRITE) != 0) {
		(void)kernel(SYS_munmap, base, all_bytes, 0);
		return false;
	}
	/* A purge of single pages would split huge ones, and a small process uses a page or two of
	 * the table and of each map. */
	(void)kernel(SYS_madvise, base, all_bytes, MADV_NOHUGEPAGE);
	(void)kernel(SYS_madvise, base, all_bytes, MADV_DONTDUMP);
	range.base = base;
	range.bytes = bytes;
	range.table = (struct mt_object_page *)(void *)(base + bytes);
	dirty_bits = (_Atomic uint64_t *)(void *)bits;
	clean_bits = (_Atomic uint64_t *)(void *)(bits + bits_bytes);
	closed_bits = (_Atomic uint64_t *)(void *)(bits + 2 * bits_bytes);
	range_pages = PAGES_OF(bytes);
	return true;
}

bool mt_object_pages_start(size_t range_bytes, struct mt_object_range *out)
{
	if (mt_os_page_bytes() > MT_OBJECT_PAGE_BYTES)
		return false;
	while (range_bytes >= LEAST_RANGE_BYTES && !reserve(range_bytes))
		range_bytes = (range_bytes / 4) & ~(size_t)(OPEN_STEP_BYTES - 1);
	if (!range.base)
		return false;
	for (uint32_t i = 0; i < MT_OBJECT_CLASS_COUNT; i++)
		claimed[i] = NO_GROUP;
	*out = range;
	return true;
}

/* Returns whether the kernel has made the memory writable. A core dump has it from now on. */
static bool open_memory(void *address, size_t bytes)
{
	if (kernel(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE) != 0)
		return false;
	(void)kernel(SYS_madvise, address, bytes, MADV_DODUMP);
	return true;
}

static bool make_writable(uint32_t end)
{
	uint32_t step =
		writable / 8 > PAGES_OF(OPEN_STEP_BYTES) ? writable / 8 : PAGES_OF(OPEN_STEP_BYTES);

	if (end <= writable)
		return true;
	if (end < writable + step)
		end = writable + step;
	if (end > get(&range_pages))
		end = get(&range_pages);
	mt_assert(end > writable);
	if (!open_memory(address_of(writable), BYTES_OF(end - writable)) ||
	    !open_memory(range.table, table_bytes(end)))
		return false;
	writable = end;
	return true;
}

void mt_object_pages_shrink(size_t spare_bytes, void (*narrow)(size_t bytes))
{
	uint32_t old = get(&range_pages);
	uint32_t end = get(&top) + PAGES_OF(spare_bytes);

	if (end < writable)
		end = writable;
	end = (end + WORD_PAGES - 1) / WORD_PAGES * WORD_PAGES;
	if (!range.base || end >= old ||
	    !atomic_compare_exchange_strong_explicit(&range_pages, &old, end, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	narrow(BYTES_OF(end));
	(void)kernel(SYS_munmap, address_of(end), BYTES_OF(old - end), 0);
	(void)kernel(SYS_munmap, (char *)range.table + table_bytes(end),
		     table_bytes(old) - table_bytes(end), 0);
}

/* ---- taking pages ---- */

static uint64_t group_mask(uint32_t group)
{
	return ((1ull << GROUP_PAGES) - 1) << (group % WORD_GROUPS * GROUP_PAGES);
}

static bool is_claimed(uint32_t group)
{
	for (uint32_t i = 0; i < MT_OBJECT_CLASS_COUNT; i++)
		if (claimed[i] == group)
			return true;
	return false;
}

/* Takes up to `most` neighbours, the lowest first. Returns how many; *out: the first. A purge may
 * take some of them meanwhile. */
static uint32_t take_bits(_Atomic uint64_t *bits, uint32_t group, uint32_t most, uint32_t *out)
{
	_Atomic uint64_t *word = &bits[group / WORD_GROUPS];
	uint64_t seen = mt_load_relaxed(word);
	uint64_t run = 0;
	uint32_t first = 0;
	uint32_t count = 0;

	do {
		uint64_t free = seen & group_mask(group);

		if (!free)
			return 0;
		first = (uint32_t)__builtin_ctzll(free);
		run = 0;
		for (count = 0;
		     count < most && first + count < WORD_PAGES && free >> (first + count) & 1;
		     count++)
			run |= 1ull << (first + count);
	} while (!atomic_compare_exchange_weak_explicit(
		word, &seen, seen & ~run, memory_order_acquire, memory_order_relaxed));
	*out = group / WORD_GROUPS * WORD_PAGES + first;
	mt_assert(count > 0 && first + count <= WORD_PAGES);
	mt_assert(first / GROUP_PAGES == group % WORD_GROUPS);
	return count;
}

/* The lowest group that has a bit and is no other class's; NO_GROUP: none. */
static uint32_t find_group(const _Atomic uint64_t *bits, uint32_t *hint, bool may_be_claimed)
{
	uint32_t end = get(&top) / WORD_PAGES + 1;

	for (uint32_t word = *hint; word < end; word++) {
		uint64_t seen = mt_load_relaxed(&bits[word]);

		if (!seen && word == *hint)
			*hint = word + 1;
		for (uint32_t i = 0; seen && i < WORD_GROUPS; i++) {
			uint32_t group = word * WORD_GROUPS + i;

			if ((seen & group_mask(group)) && (may_be_claimed || !is_claimed(group)))
				return group;
		}
	}
	return NO_GROUP;
}

/* A group that was never used, as clean pages. */
static uint32_t add_group(void)
{
	uint32_t first = get(&top);
	uint32_t group = first / GROUP_PAGES;

	mt_assert(first % GROUP_PAGES == 0 && first <= get(&range_pages));
	if (get(&range_pages) - first < GROUP_PAGES || !make_writable(first + GROUP_PAGES))
		return NO_GROUP;
	atomic_fetch_or_explicit(&clean_bits[group / WORD_GROUPS], group_mask(group),
				 memory_order_relaxed);
	if (group / WORD_GROUPS < clean_hint)
		clean_hint = group / WORD_GROUPS;
	mt_store_relaxed(&top, first + GROUP_PAGES);
	return group;
}

/* A page of this word was taken. Returns whether the word is writable. */
static bool open_word(uint32_t word)
{
	uint64_t bit = 1ull << (word % WORD_PAGES);
	_Atomic uint64_t *bits = &closed_bits[word / WORD_PAGES];

	if (mt_likely(!(mt_load_relaxed(bits) & bit)))
		return true;
	is_refused = !open_memory(address_of(word * WORD_PAGES), BYTES_OF(WORD_PAGES));
	if (!is_refused)
		atomic_fetch_and_explicit(bits, ~bit, memory_order_relaxed);
	return !is_refused;
}

/* Makes neighbours resident by one system call, and takes the first. */
static uint32_t take_clean(uint32_t group)
{
	uint32_t most = cannot_populate ? 1 : get(&top) / POPULATE_SHARE;
	uint32_t first;
	uint32_t count = take_bits(clean_bits, group, most ? most : 1, &first);

	if (!count)
		return MT_OBJECT_PAGE_NONE;
	if (mt_unlikely(!open_word(first / WORD_PAGES))) {
		atomic_fetch_or_explicit(&clean_bits[first / WORD_PAGES],
					 ((1ull << count) - 1) << (first % WORD_PAGES),
					 memory_order_release);
		return MT_OBJECT_PAGE_NONE;
	}
	if (count == 1)
		return first;
	if (kernel(SYS_madvise, address_of(first), BYTES_OF(count), MADV_POPULATE_WRITE) == EINVAL)
		cannot_populate = true;
	atomic_fetch_or_explicit(&dirty_bits[first / WORD_PAGES],
				 ((1ull << (count - 1)) - 1) << (first % WORD_PAGES + 1),
				 memory_order_release);
	if (first / WORD_PAGES < dirty_hint)
		dirty_hint = first / WORD_PAGES;
	return first;
}

/* A resident page, of the class's group or of another one that becomes its group. */
static uint32_t take_dirty(uint32_t size_class, bool may_be_claimed)
{
	uint32_t index;

	while (claimed[size_class] == NO_GROUP ||
	       !take_bits(dirty_bits, claimed[size_class], 1, &index)) {
		uint32_t group = find_group(dirty_bits, &dirty_hint, may_be_claimed);

		if (group == NO_GROUP)
			return MT_OBJECT_PAGE_NONE;
		claimed[size_class] = group;
	}
	return index;
}

/* A page that is not resident, likewise. */
static uint32_t take_fresh(uint32_t size_class)
{
	uint32_t added = mt_exchange_relaxed(&clean_added, NO_WORD);
	uint32_t index = MT_OBJECT_PAGE_NONE;

	if (added < clean_hint)
		clean_hint = added;
	is_refused = false;
	if (claimed[size_class] != NO_GROUP)
		index = take_clean(claimed[size_class]);
	while (index == MT_OBJECT_PAGE_NONE && !is_refused) {
		uint32_t group = find_group(clean_bits, &clean_hint, false);

		if (group == NO_GROUP)
			group = add_group();
		if (group == NO_GROUP)
			group = find_group(clean_bits, &clean_hint, true);
		if (group == NO_GROUP)
			return MT_OBJECT_PAGE_NONE;
		claimed[size_class] = group;
		index = take_clean(group);
	}
	return index;
}

uint32_t mt_object_pages_take(uint32_t size_class, uint64_t *out_event_bytes)
{
	uint64_t taken = mt_load_relaxed(&taken_count) + 1;
	uint32_t index = take_dirty(size_class, false);

	mt_assert(size_class < MT_OBJECT_CLASS_COUNT);
	*out_event_bytes = 0;
	if (index == MT_OBJECT_PAGE_NONE)
		index = take_fresh(size_class);
	if (index == MT_OBJECT_PAGE_NONE)
		index = take_dirty(size_class, true);
	if (index == MT_OBJECT_PAGE_NONE)
		return index;
	mt_store_relaxed(&taken_count, taken);
	mt_assert(index < writable && writable <= get(&range_pages));
	if (BYTES_OF(taken - event_count) >= EVENT_BYTES) {
		*out_event_bytes = BYTES_OF(taken - event_count);
		event_count = taken;
	}
	return index;
}

void mt_object_pages_return(uint32_t index)
{
	uint32_t word = index / WORD_PAGES;
	uint64_t returned = mt_load_relaxed(&returned_count);

	mt_assert(index < get(&top));
	mt_assert(!(atomic_load(&dirty_bits[word]) >> (index % WORD_PAGES) & 1));
	atomic_fetch_or_explicit(&dirty_bits[word], 1ull << (index % WORD_PAGES),
				 memory_order_release);
	mt_store_relaxed(&returned_count, returned + 1);
	if (word < dirty_hint)
		dirty_hint = word;
}

/* ---- purge ---- */

static void note_clean(uint32_t word)
{
	uint32_t lowest = get(&clean_added);

	while (word < lowest &&
	       !atomic_compare_exchange_weak_explicit(&clean_added, &lowest, word,
						      memory_order_release, memory_order_relaxed))
		;
}

/* Closes the words whose pages are all clean. */
static MT_COLD void close_words(uint32_t first, uint32_t end)
{
	for (uint32_t word = first; word < end; word++) {
		uint64_t all = UINT64_MAX;
		bool is_closed;

		if (!atomic_compare_exchange_strong_explicit(
			    &clean_bits[word], &all, 0, memory_order_acquire, memory_order_relaxed))
			continue;
		is_closed = kernel(SYS_mprotect, address_of(word * WORD_PAGES),
				   BYTES_OF(WORD_PAGES), PROT_NONE) == 0;
		if (is_closed)
			atomic_fetch_or_explicit(&closed_bits[word / WORD_PAGES],
						 1ull << (word % WORD_PAGES), memory_order_relaxed);
		mt_store_release(&clean_bits[word], UINT64_MAX);
		note_clean(word);
	}
}

/* Purges the dirty pages of some words, neighbours together. Returns how many. */
static uint32_t purge_words(uint32_t first, uint32_t end)
{
	uint64_t bits[PURGE_STEP_WORDS];
	uint32_t count = 0;
	uint32_t begin = MT_OBJECT_PAGE_NONE; /* of the run that goes up to `index` */
	uint32_t index = first * WORD_PAGES;

	mt_assert(end - first <= PURGE_STEP_WORDS);
	for (uint32_t word = first; word < end; word++) {
		bits[word - first] =
			atomic_exchange_explicit(&dirty_bits[word], 0, memory_order_acquire);
		count += (uint32_t)__builtin_popcountll(bits[word - first]);
	}
	for (; count && index <= end * WORD_PAGES; index++) {
		uint32_t word = index / WORD_PAGES - first;
		bool is_free = index < end * WORD_PAGES && bits[word] >> (index % WORD_PAGES) & 1;

		if (is_free && begin == MT_OBJECT_PAGE_NONE)
			begin = index;
		if (is_free || begin == MT_OBJECT_PAGE_NONE)
			continue;
		(void)kernel(SYS_madvise, address_of(begin), BYTES_OF(index - begin),
			     MADV_DONTNEED);
		begin = MT_OBJECT_PAGE_NONE;
	}
	for (uint32_t word = first; count && word < end; word++)
		atomic_fetch_or_explicit(&clean_bits[word], bits[word - first],
					 memory_order_release);
	if (count)
		note_clean(first);
	if (count && mt_unlikely(get(&kept_pages)))
		close_words(first, end);
	return count;
}

static uint32_t count_bits(const _Atomic uint64_t *bits)
{
	uint32_t end = get(&top) / WORD_PAGES + 1;
	uint32_t count = 0;

	for (uint32_t word = 0; word < end; word++)
		count += (uint32_t)__builtin_popcountll(mt_load_relaxed(&bits[word]));
	return count;
}

void mt_object_pages_limit(uint64_t data_bytes)
{
	uint64_t kept = data_bytes / KEPT_SHARE >> MT_OBJECT_PAGE_SHIFT;

	mt_store_relaxed(&kept_pages, kept < GROUP_PAGES ? GROUP_PAGES : (uint32_t)kept);
}

void mt_object_pages_tell_returned(void)
{
	uint64_t returned = mt_load_relaxed(&returned_count);
	uint32_t kept = get(&kept_pages);

	if (mt_unlikely(kept) && returned - mt_load_relaxed(&checked_count) >= kept) {
		mt_store_relaxed(&checked_count, returned);
		mt_object_heap_exceeds();
	} else if (BYTES_OF(returned - mt_load_relaxed(&told_count)) >= EVENT_BYTES) {
		mt_store_relaxed(&told_count, returned);
		mt_object_heap_grew(0);
	}
}

/* From the end, since the first pages are taken first. */
uint64_t mt_object_pages_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void))
{
	uint32_t keep = PAGES_OF(keep_bytes);
	uint32_t dirty = range.base ? count_bits(dirty_bits) : 0;
	uint32_t end = get(&top) / WORD_PAGES + 1;
	uint32_t purged = 0;

	while (end > 0 && purged + keep < dirty && enter()) {
		uint32_t first = end > PURGE_STEP_WORDS ? end - PURGE_STEP_WORDS : 0;

		purged += purge_words(first, end);
		leave();
		end = first;
	}
	return BYTES_OF(purged);
}

/* ---- figures ---- */

void mt_object_pages_read(struct mt_object_pages_figures *out)
{
	/* in this order, lest more come back than were taken */
	uint64_t returned = mt_load_relaxed(&returned_count);
	uint64_t taken = mt_load_relaxed(&taken_count);

	out->dirty_bytes = range.base ? BYTES_OF(count_bits(dirty_bits)) : 0;
	out->used_bytes = taken > returned ? BYTES_OF(taken - returned) : 0;
	out->taken_bytes = BYTES_OF(taken);
	out->returned_bytes = BYTES_OF(returned);
}

uint32_t mt_object_pages_top(void)
{
	return get(&top);
}
