#include "heap/jemalloc_internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "core/thread.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/rss.h"

/* fewer unused records are not worth a look: half a MB */
#define LEAST_COUNT 4096u
/* under the purge lock at once: about a millisecond */
#define STEP_COUNT 4096u
#define RANGES     2048u

/* ---- jemalloc's records ---- */

/* Source: struct edata_cache_s of jemalloc 5.3.0. */
struct cache {
	void *heap[2];
	_Atomic size_t count; /* unused records */
};

/* Internal to jemalloc: src/edata_cache.c, src/base.c of 5.3.0. Weak: another version may lack
 * them. The lowest of the oldest records comes first. */
extern struct mt_extent *je_edata_cache_get(void *thread, struct cache *cache)
	__attribute__((weak));
extern void je_edata_cache_put(void *thread, struct cache *cache, struct mt_extent *record)
	__attribute__((weak));
extern bool __real_je_edata_cache_init(struct cache *cache, void *base) __attribute__((weak));
bool __wrap_je_edata_cache_init(struct cache *cache, void *base);
extern struct mt_extent *__real_je_base_alloc_edata(void *thread, void *base) __attribute__((weak));
struct mt_extent *__wrap_je_base_alloc_edata(void *thread, void *base);

static char *_Atomic first_cache; /* of the first arena; no ordering */

bool __wrap_je_edata_cache_init(struct cache *cache, void *base)
{
	if (!mt_load_relaxed(&first_cache))
		mt_store_relaxed(&first_cache, (char *)cache);
	return __real_je_edata_cache_init(cache, base);
}

/* ---- the stock, and what fills it ---- */

/* What was taken out of jemalloc's caches: records that lie in pages with others which are in use,
 * and pages that went back to the kernel. Both serve before fresh memory does. A forked child may
 * find a change half made: each is one store that hands out or takes in. */
static struct mt_lock lock = MT_LOCK(records);
static struct mt_extent *_Atomic kept; /* a list by their addresses */
static struct {
	char *from;
	size_t bytes;
} ranges[RANGES];
static _Atomic size_t ranges_count;
static _Atomic size_t returned_bytes; /* in all ranges; no ordering */

size_t mt_jemalloc_records_returned_bytes(void)
{
	return mt_load_relaxed(&returned_bytes);
}

static struct mt_extent *take(void)
{
	struct mt_extent *record;
	size_t count;

	mt_lock_lock(&lock);
	record = mt_load_relaxed(&kept);
	count = mt_load_relaxed(&ranges_count);
	while (count && ranges[count - 1].bytes == 0)
		count--;
	if (record) {
		mt_store_relaxed(&kept, (struct mt_extent *)(void *)record->address);
	} else if (count) {
		ranges[count - 1].bytes -= MT_EXTENT_RECORD_BYTES;
		mt_sub_relaxed(&returned_bytes, MT_EXTENT_RECORD_BYTES);
		record = (void *)(ranges[count - 1].from + ranges[count - 1].bytes);
	}
	mt_store_relaxed(&ranges_count, count);
	mt_lock_unlock(&lock);
	return record;
}

struct mt_extent *__wrap_je_base_alloc_edata(void *thread, void *base)
{
	bool has_stock = mt_load_relaxed(&kept) || mt_load_relaxed(&ranges_count);
	struct mt_extent *record = mt_unlikely(has_stock) ? take() : NULL;

	return record ? record : __real_je_base_alloc_edata(thread, base);
}

static void keep(char *from, size_t bytes)
{
	mt_lock_lock(&lock);
	for (char *at = from; at < from + bytes; at += MT_EXTENT_RECORD_BYTES) {
		struct mt_extent *record = (void *)at;

		record->address = (char *)mt_load_relaxed(&kept);
		mt_store_release(&kept, record); /* a copy of the process has both */
	}
	mt_lock_unlock(&lock);
}

/* Only the worker adds, so that a range is free once it was seen free. */
static void return_pages(char *from, size_t bytes)
{
	mt_assert((uintptr_t)from % mt_os_page_bytes() == 0 && bytes % mt_os_page_bytes() == 0);
	if (mt_load_relaxed(&ranges_count) == RANGES ||
	    mt_raw_syscall(SYS_madvise, from, bytes, MADV_DONTNEED) != 0) {
		keep(from, bytes);
		return;
	}
	mt_lock_lock(&lock);
	ranges[mt_load_relaxed(&ranges_count)].from = from;
	ranges[mt_load_relaxed(&ranges_count)].bytes = bytes;
	mt_add_relaxed(&ranges_count, 1);
	mt_add_relaxed(&returned_bytes, bytes);
	mt_lock_unlock(&lock);
}

/* Records that lie side by side. */
static void end_run(char *from, size_t bytes)
{
	uintptr_t page = mt_os_page_bytes(), begin = (uintptr_t)from, end = begin + bytes;
	uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;

	if (last > first) {
		keep(from, first - begin);
		return_pages((char *)first, last - first);
		keep((char *)last, end - last);
	} else {
		keep(from, bytes);
	}
}

/* Returns how many it took: 0 if there is none. */
static size_t take_out(struct cache *cache, size_t most)
{
	struct mt_extent *record;
	char *from = NULL;
	size_t bytes = 0, count = 0;

	mt_purge_enter();
	while (count < most && mt_load_relaxed(&cache->count) &&
	       (record = je_edata_cache_get(NULL, cache))) {
		mt_assert((uintptr_t)record % MT_EXTENT_RECORD_BYTES == 0);
		if ((char *)record != from + bytes) {
			end_run(from, bytes);
			from = (char *)record;
			bytes = 0;
		}
		bytes += MT_EXTENT_RECORD_BYTES;
		count++;
	}
	end_run(from, bytes);
	mt_purge_leave();
	return count;
}

static void put_back(struct cache *cache)
{
	while (mt_load_relaxed(&kept)) {
		struct mt_extent *record;

		mt_purge_enter();
		for (size_t i = 0; i < STEP_COUNT && mt_load_relaxed(&kept); i++)
			if ((record = take()))
				je_edata_cache_put(NULL, cache, record);
		mt_purge_leave();
	}
}

static void tidy(struct cache *cache)
{
	size_t left = mt_load_relaxed(&cache->count), taken = 1;

	for (; left && taken; left -= taken)
		taken = take_out(cache, left < STEP_COUNT ? left : STEP_COUNT);
	put_back(cache);
}

/* ---- where the caches are ---- */

static struct cache *cache_of(unsigned int index, ptrdiff_t offset)
{
	char *arena = __atomic_load_n(&je_arenas[index], __ATOMIC_ACQUIRE);

	return arena ? (struct cache *)(void *)(arena + offset) : NULL;
}

void mt_jemalloc_records_return(void)
{
	static size_t left; /* unused records after the last time */
	char *first = mt_load_relaxed(&first_cache);
	bool retains = false; /* else jemalloc reads other arenas' records; so do we if we unmap */
	size_t count = 0, length = sizeof(retains);
	ptrdiff_t offset;

	mt_assert(mt_thread_is_ours());
	if (!first || !je_arenas || !mt_jemalloc_has_own_arenas_only() || mt_jemalloc_unmaps())
		return;
	offset = first - (char *)je_arenas[0];
	for (unsigned int i = 0; i < je_manual_arena_base; i++)
		if (cache_of(i, offset))
			count += mt_load_relaxed(&cache_of(i, offset)->count);
	if (count < LEAST_COUNT || count < 2 * left || !mt_rss_shared_are_few() ||
	    je_mallctl("opt.retain", &retains, &length, NULL, 0) != 0 || !retains)
		return;
	left = 0;
	for (unsigned int i = 0; i < je_manual_arena_base; i++)
		if (cache_of(i, offset)) {
			tidy(cache_of(i, offset));
			left += mt_load_relaxed(&cache_of(i, offset)->count);
		}
}

void mt_jemalloc_records_fork_child(void)
{
	mt_lock_reset(&lock);
}
