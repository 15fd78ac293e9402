#include "reaper/shared_pages.h"

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/os.h"
#include "sense/rss.h"

#define UNMERGED_MOST_BYTES (16u << 10) /* in fast bins, that a purge may write to */
#define PAUSE_SHARE 100 /* a reply that there are many stands for that many times what it cost */

/* Counters, no ordering: a reply that comes too late is one that asks again. */
static _Atomic uint32_t forks;
static _Atomic uint32_t few_at;   /* the fork after which few were shared; 0 before any */
static _Atomic uint64_t again_ns; /* before that the kernel is not asked: there were many */

bool mt_shared_pages_are_known_few(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed) == atomic_load_explicit(&few_at, memory_order_relaxed);
}

bool mt_shared_pages_are_few(void)
{
	uint32_t now = atomic_load_explicit(&forks, memory_order_relaxed);
	uint64_t began = mt_os_now_ns();
	uint64_t ended;
	uint64_t bytes;

	if (now == atomic_load_explicit(&few_at, memory_order_relaxed))
		return true;
	if (began < atomic_load_explicit(&again_ns, memory_order_relaxed))
		return false;
	if (mt_rss_read_shared(&bytes) && bytes <= MT_SHARED_PAGES_MOST) {
		atomic_store_explicit(&few_at, now, memory_order_relaxed);
		return true;
	}
	ended = mt_os_now_ns();
	atomic_store_explicit(&again_ns, ended + (ended - began) * PAUSE_SHARE, memory_order_relaxed);
	return false;
}

bool mt_shared_pages_purge_copies(bool may_ask)
{
	uint64_t (*unmerged_bytes)(void) = mt_backend()->unmerged_bytes;

	if (!unmerged_bytes || mt_shared_pages_are_known_few() || unmerged_bytes() <= UNMERGED_MOST_BYTES)
		return false;
	return !may_ask || !mt_shared_pages_are_few();
}

uint32_t mt_shared_pages_forks(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed);
}

void mt_shared_pages_note_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	atomic_store_explicit(&again_ns, 0, memory_order_relaxed);
}
