#include "heap/jemalloc_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/worker.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/growth.h"
#include "sys/attr.h"
#include "sys/saturating.h"

#define LONGEST_WATCH_BYTES (16 * MT_GROWTH_STEP_BYTES)

/* A child serves its first growth from what it has inherited, and the kernel is asked for nothing:
 * workers of a data loader held 150 MB each with nobody to look after it. So it is watched from its
 * own calls until it has a worker thread. A child that stays small is watched for ever, on all its
 * threads: each adds up its own, and tells the others only now and then. Looks that have found it
 * small come at twice the distance, or a child that churns buffers would do little else. */
/* of this thread's allocations; 0: it is yet to begin */
static MT_TLS uint64_t told_bytes;
/* allocated since the last look, as far as told; counter, no ordering */
static _Atomic uint64_t watched_bytes;
static _Atomic uint64_t watch_step_bytes; /* the next look; counter, no ordering */

void mt_jemalloc_watch_child(void)
{
	if (mt_backend()->counting != MT_COUNTING_OWN)
		return;
	told_bytes = 0;
	atomic_store_explicit(&watched_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&watch_step_bytes, MT_GROWTH_STEP_BYTES, memory_order_relaxed);
	mt_heap_watch(true);
}

/* True once in so many bytes: who takes them looks. */
static bool watch_is_due(void)
{
	uint64_t step = atomic_load_explicit(&watch_step_bytes, memory_order_relaxed);
	uint64_t allocated;
	uint64_t freed;
	uint64_t fresh;

	if (!mt_thread_counters.counters ||
	    !mt_jemalloc_counters(mt_thread_counters.counters, &allocated, &freed))
		return false;
	fresh = told_bytes ? mt_sat_sub(allocated, told_bytes) : 0;
	told_bytes = allocated;
	if (atomic_fetch_add_explicit(&watched_bytes, fresh, memory_order_relaxed) + fresh < step)
		return false;
	atomic_store_explicit(&watched_bytes, 0, memory_order_relaxed);
	if (step < LONGEST_WATCH_BYTES)
		atomic_store_explicit(&watch_step_bytes, step * 2, memory_order_relaxed);
	return true;
}

MT_COLD void mt_jemalloc_watched(void)
{
	int kept = errno;

	if (watch_is_due())
		mt_growth_note();
	if (mt_worker_is_running())
		mt_heap_watch(false);
	errno = kept;
}
