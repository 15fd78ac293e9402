#include "heap/trim.h"

#include "core/cleanup.h"
#include "core/components.h"
#include "core/control_file.h"
#include "core/services.h"
#include "core/thread.h"
#include "sys/rss.h"
#include "core/state.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/purge_lock.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/saturating.h"
#include "sys/attr.h"

/* in fast bins, that a purge may write to */
#define UNMERGED_MOST_BYTES (16u << 10)

/* longest wait of a thread of the program for one step */
#define RECLAIM_STEP_NS (10 * MT_NS_PER_MS)

/* What a purge on a thread of the program may return: 10 ms of CPU time if it lies together, 60
 * if every second page is free. */
#define SHORT_BYTES (128ull << 20)

static struct mt_lock lock = MT_LOCK(cleanup);

/* Our own count; if we do not count, the allocator's. */
static uint64_t live_bytes(void)
{
	struct mt_account_totals totals = {0};
	struct mt_heap_figures figures = {0};
	struct mt_object_heap_figures objects;

	if (mt_backend()->counting != MT_COUNTING_NONE) {
		mt_object_heap_read(&objects, true); /* makes the next reading exact */
		(void)mt_account_read(&totals);
		return totals.live_bytes;
	}
	mt_lock_lock(&lock);
	(void)mt_backend()->figures(&figures);
	mt_lock_unlock(&lock);
	return figures.live_bytes;
}

bool mt_heap_purge_copies(bool may_ask)
{
	uint64_t (*unmerged_bytes)(void) = mt_backend()->unmerged_bytes;
	/* first: a fork after it makes the rest out of date */
	uint32_t forks = mt_rss_shared_forks();

	if (unmerged_bytes && !mt_rss_shared_are_known_few() &&
	    unmerged_bytes() > UNMERGED_MOST_BYTES && (!may_ask || !mt_rss_shared_are_few()))
		return true;
	mt_purge_allow_trim(forks);
	return false;
}

/* The caches of threads that rest are emptied in any case (purge/tick.c). */
static bool is_asked_for(enum mt_reason reason)
{
	return reason == MT_REASON_SIGNAL || reason == MT_REASON_REQUEST ||
	       reason == MT_REASON_API || reason == MT_REASON_MALLOC_TRIM ||
	       reason == MT_REASON_PRESSURE || reason == MT_REASON_RSS_LIMIT;
}

static bool enter_purge(void)
{
	mt_purge_enter();
	return true;
}

static void purge(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	struct mt_stats_cleanup *stats = &cleanup->stats;
	struct mt_purge_outcome outcome = {0};
	uint64_t began = mt_os_now_ns();
	uint64_t began_cpu = mt_os_thread_cpu_ns();

	mt_lock_lock(&lock);
	if (request->here && mt_backend()->flush_thread)
		mt_backend()->flush_thread();
	outcome.possible = true;
	if (mt_thread_is_ours() && mt_backend()->empty_caches && is_asked_for(request->reason))
		(void)mt_backend()->empty_caches(true);
	if (request->reason == MT_REASON_HUGE_PAGES && mt_backend()->purge_again)
		mt_backend()->purge_again();
	else if (!mt_heap_purge_copies(true))
		mt_backend()->purge(&outcome);
	(void)mt_object_heap_purge(0, enter_purge, mt_purge_leave);
	mt_account_event_purged();
	mt_lock_unlock(&lock);
	stats->purge_ns += mt_os_now_ns() - began;
	cleanup->purge_cpu_ns += mt_sat_sub(mt_os_thread_cpu_ns(), began_cpu);
	if (outcome.longest_hold_ns > stats->longest_hold_ns)
		stats->longest_hold_ns = outcome.longest_hold_ns;
	cleanup->purge_possible = outcome.possible;
}

/* The lookup of Python's symbols and the wait for a collection may take long: what can be purged
 * before is purged before. */
static bool purges_ahead(const struct mt_trim_request *request)
{
	return request->level >= MT_LEVEL_LIGHT && !request->here &&
	       (request->pressure.sources || mt_interpreter_is_running());
}

void mt_heap_prepare_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	cleanup->stats.live_before_bytes = live_bytes();
	cleanup->flush_thread = mt_backend()->flush_thread;
	if (!purges_ahead(request))
		return;
	purge(request, cleanup);
	cleanup->was_purged = cleanup->purge_possible;
}

/* Whether nothing can have been freed since prepare_trim. */
static bool is_unchanged(const struct mt_stats_cleanup *stats)
{
	return (stats->gc_state == MT_GC_NONE || stats->gc_state == MT_GC_SHARED) &&
	       stats->gpu_state == MT_GPU_NONE;
}

void mt_heap_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	if (!cleanup->was_purged || !is_unchanged(&cleanup->stats))
		purge(request, cleanup);
	cleanup->stats.live_after_bytes = live_bytes();
}

static bool is_short(void)
{
	const struct mt_backend *backend = mt_backend();
	struct mt_object_heap_figures objects;
	struct mt_mallinfo info;
	bool is_known;

	if (!backend->info || !mt_lock_lock_within(&lock, RECLAIM_STEP_NS))
		return false;
	is_known = backend->info(&info);
	mt_lock_unlock(&lock);
	mt_object_heap_read(&objects, false);
	return is_known && info.keepcost + objects.dirty_bytes <= SHORT_BYTES;
}

bool mt_heap_trim_by_worker(void)
{
	if (!mt_worker_is_running() || !mt_state_is_own_process() || is_short())
		return false;
	if (mt_backend()->flush_thread)
		mt_backend()->flush_thread();
	mt_assert(!mt_thread_is_ours());
	mt_control_notify(MT_CONTROL_TRIM);
	return true;
}

void mt_heap_trim_tick(uint32_t bits)
{
	const struct mt_trim_request request = {.reason = MT_REASON_MALLOC_TRIM,
						.level = MT_LEVEL_PURGE};
	struct mt_stats_cleanup cleanup;

	if (!(bits & MT_CONTROL_TRIM))
		return;
	mt_assert(mt_thread_is_ours());
	mt_cleanup_run(&request, &cleanup);
	mt_components_cleaned(&cleanup, false);
}

static bool enter_purge_soon(void)
{
	return mt_purge_enter_within(RECLAIM_STEP_NS);
}

void mt_heap_reclaim_objects(void)
{
	(void)mt_object_heap_purge(0, enter_purge_soon, mt_purge_leave);
}

int mt_heap_trim_libc(size_t pad)
{
	uint64_t objects = mt_object_heap_purge(0, enter_purge_soon, mt_purge_leave);

	return mt_glibc_trim(pad) || objects;
}

enum mt_reclaimed mt_heap_reclaim(uint64_t keep_bytes, uint64_t patience_ns)
{
	uint64_t objects = mt_object_heap_purge(0, enter_purge_soon, mt_purge_leave);
	enum mt_reclaimed got = mt_backend()->reclaim(keep_bytes, patience_ns);

	return objects ? MT_RECLAIMED_SOME : got;
}

void mt_heap_trim_fork_child(void)
{
	mt_lock_reset(&lock);
}
