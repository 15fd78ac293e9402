#include "heap/shared_pages.h"

#include <stdatomic.h>

#include "heap/backend.h"
#include "heap/purge_lock.h"
#include "sys/os.h"
#include "sys/rss.h"

/* in fast bins, that a purge may write to */
#define UNMERGED_MOST_BYTES (16u << 10)
/* a reply that there are many stands for that many times what it cost */
#define PAUSE_SHARE 100

/* Counters, no ordering: a reply that comes too late is one that asks again. */
static _Atomic uint32_t few_at;   /* the fork after which few were shared; 0 before any */
static _Atomic uint64_t again_ns; /* before that the kernel is not asked: there were many */

bool mt_shared_pages_are_known_few(void)
{
	return mt_purge_forks() == atomic_load_explicit(&few_at, memory_order_relaxed);
}

bool mt_shared_pages_are_few(void)
{
	uint32_t now = mt_purge_forks();
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
	atomic_store_explicit(&again_ns, ended + (ended - began) * PAUSE_SHARE,
			      memory_order_relaxed);
	return false;
}

bool mt_shared_pages_purge_copies(bool may_ask)
{
	uint64_t (*unmerged_bytes)(void) = mt_backend()->unmerged_bytes;
	uint32_t now = mt_purge_forks(); /* first: a fork after it makes the rest out of date */

	if (unmerged_bytes && !mt_shared_pages_are_known_few() &&
	    unmerged_bytes() > UNMERGED_MOST_BYTES && (!may_ask || !mt_shared_pages_are_few()))
		return true;
	mt_purge_allow_trim(now);
	return false;
}

uint32_t mt_shared_pages_forks(void)
{
	return mt_purge_forks();
}

void mt_shared_pages_note_fork(void)
{
	mt_purge_note_fork();
	atomic_store_explicit(&again_ns, 0, memory_order_relaxed);
}
