#include "core/shared_pages.h"

#include <stdatomic.h>

#include "sys/os.h"
#include "sys/rss.h"

/* a reply "many" is valid for this many times its cost */
#define PAUSE_SHARE 100

/* Counters, no ordering: a late value only asks the kernel again. A purge reads `forks` under the
 * purge lock, and a fork counts before it takes that lock. */
static _Atomic uint32_t forks;
static _Atomic uint32_t few_at;   /* number of forks when few pages were shared; 0: before any */
static _Atomic uint64_t again_ns; /* the kernel is not asked before this time */

uint32_t mt_shared_pages_forks(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed);
}

bool mt_shared_pages_are_known_few(void)
{
	return mt_shared_pages_forks() == atomic_load_explicit(&few_at, memory_order_relaxed);
}

bool mt_shared_pages_are_few(void)
{
	uint32_t now = mt_shared_pages_forks();
	uint64_t began = mt_os_now_ns();
	uint64_t ended;
	uint64_t bytes;

	if (now == atomic_load_explicit(&few_at, memory_order_relaxed))
		return true;
	if (began < atomic_load_explicit(&again_ns, memory_order_relaxed))
		return false;
	if (mt_rss_read_shared(&bytes) && bytes <= MT_SHARED_PAGES_MAX_BYTES) {
		atomic_store_explicit(&few_at, now, memory_order_relaxed);
		return true;
	}
	ended = mt_os_now_ns();
	atomic_store_explicit(&again_ns, ended + (ended - began) * PAUSE_SHARE,
			      memory_order_relaxed);
	return false;
}

void mt_shared_pages_note_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	atomic_store_explicit(&again_ns, 0, memory_order_relaxed);
}
