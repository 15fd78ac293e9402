#include "purge/tick.h"

#include "heap/account.h"
#include "heap/backend.h"
#include "core/config.h"
#include "core/cgroup.h"
#include "core/log.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "core/cleanup.h"
#include "purge/growth_purge.h"
#include "purge/heap_sample.h"
#include "core/components.h"
#include "core/devices.h"
#include "purge/policy.h"
#include "purge/rounds.h"
#include "sys/rss.h"
#include "core/publish.h"
#include "core/thread.h"
#include "core/files.h"
#include "sys/attr.h"

/* shortest time between two reads of /proc/self/status, cleanups aside */
#define STATUS_NS (5 * MT_NS_PER_S)
/* the same while the process does not change: only the signal's disposition may */
#define IDLE_STATUS_NS (60 * MT_NS_PER_S)
/* time between two writes of figures to the file; a request writes at once */
#define WRITE_NS (900 * MT_NS_PER_MS)
/* the same while the process does not change */
#define IDLE_WRITE_NS (30 * MT_NS_PER_S)
/* longest time between two sums over the counters of all threads */
#define FULL_SUM_NS MT_NS_PER_S
/* the same while the process does not change: every third of the longest ticks */
#define IDLE_FULL_SUM_NS (11 * MT_NS_PER_S)
/* up to this number of threads the sum is always complete: it costs microseconds */
#define FEW_THREADS 64
#define MOVED_BYTES MT_MIB
/* a tick lasts at least this many times its CPU time */
#define TICK_COST_SHARE 100

static struct mt_policy policy;
static struct mt_refill refill;
static uint64_t started_ns;
static uint64_t status_read_ns;
static struct mt_snapshot status_sample; /* figures of statm at that time */
static uint64_t written_ns;

static struct mt_account_totals totals; /* as of the last sample */
static bool is_counted;                 /* the shim counts these totals */
/* totals covers all threads, not only the active ones */
static bool is_full_sum;
static struct mt_snapshot last_full_sum; /* the process at the last complete sum */

void mt_tick_start(void)
{
	const struct mt_backend_identity *backend = mt_backend_identity();
	const struct mt_publish_identity identity = {
		.allocator = backend->allocator,
		.evidence = backend->evidence,
		.mode = backend->mode,
		.conf = backend->conf,
	};

	mt_assert(mt_thread_is_ours());
	started_ns = mt_os_now_ns();
	status_read_ns = 0;
	written_ns = 0;
	mt_heap_sample_start();
	refill = (struct mt_refill){0};
	mt_policy_start(&policy, mt_os_page_bytes(), started_ns);
	mt_publish_start(mt_config(), &identity);
	mt_tick_refresh();
	mt_publish_write();
}

/* ---- reading the process ---- */

static bool is_close(uint64_t a, uint64_t b)
{
	return mt_abs_diff(a, b) < MOVED_BYTES;
}

/* Returns whether nothing in a partial sum has changed since the last complete one. */
static bool is_unchanged(const struct mt_snapshot *now)
{
	return now->rss_bytes == last_full_sum.rss_bytes &&
	       now->anon_bytes == last_full_sum.anon_bytes &&
	       totals.allocated_bytes == last_full_sum.allocated_bytes &&
	       totals.live_bytes == last_full_sum.live_bytes;
}

/* Reads only the threads that were active lately, if cheaper figures show no change. The
 * counters of hundreds of threads lie in as many cache lines and cost more than the rest of a tick.
 * Not while the dirty bytes may be worth a purge. A free alone changes no cheap figure: it may be
 * noticed some seconds later. */
static bool use_partial_sum(const struct mt_snapshot *now)
{
	uint64_t since = now->now_ns - last_full_sum.now_ns;

	return is_counted && totals.threads_count > FEW_THREADS && since < IDLE_FULL_SUM_NS &&
	       is_close(now->rss_bytes, last_full_sum.rss_bytes) &&
	       mt_heap_sample_dirty_bytes() < mt_policy_threshold_bytes(now, mt_config()) &&
	       mt_account_partial_sum(&totals) &&
	       is_close(totals.live_bytes, last_full_sum.live_bytes) &&
	       (since < FULL_SUM_NS || is_unchanged(now));
}

static void read_account(struct mt_snapshot *now, bool all)
{
	mt_assert(mt_thread_is_ours());
	is_full_sum = all || !use_partial_sum(now);
	if (is_full_sum)
		is_counted = mt_account_read(&totals);
	now->live_bytes = is_counted ? totals.live_bytes : mt_heap_sample_figures()->live_bytes;
	now->allocated_bytes = is_counted ? totals.allocated_bytes : 0;
	if (is_full_sum)
		last_full_sum = *now;
}

static struct mt_snapshot read_sample(bool all)
{
	struct mt_snapshot now = {.now_ns = mt_os_now_ns()};
	/* static: a failed read keeps the last values */
	static struct mt_rss_quick rss;

	(void)mt_rss_read_quick(&rss);
	now.rss_bytes = rss.rss_bytes;
	now.anon_bytes = rss.anon_bytes;
	read_account(&now, all);
	now.gpu_live_bytes = mt_devices_live_bytes();
	return now;
}

static void read_usage(struct mt_snapshot *now)
{
	struct mt_rss_usage usage;

	if (!mt_rss_read_usage(&usage))
		return;
	now->usage_known = true;
	now->faults_count = usage.minor_faults_count;
	now->system_ns = usage.system_ns;
	now->cpu_ns = usage.cpu_ns;
}

/* Reads every figure, for a reader that asked for it. */
static struct mt_snapshot read_all(void)
{
	struct mt_snapshot now = read_sample(true);

	read_usage(&now);
	mt_heap_sample_read(&now, true);
	return now;
}

static bool is_status_due(const struct mt_snapshot *now)
{
	uint64_t since = now->now_ns - status_read_ns;

	if (now->rss_bytes == status_sample.rss_bytes &&
	    now->anon_bytes == status_sample.anon_bytes)
		return since >= IDLE_STATUS_NS;
	return since >= STATUS_NS;
}

/* ---- stats ---- */

static void fill_status(struct mt_stats_snapshot *to, const struct mt_rss_full *rss)
{
	to->rss_peak_bytes = rss->peak_bytes;
	to->rss_file_bytes = rss->file_bytes;
	to->rss_shmem_bytes = rss->shmem_bytes;
	to->swap_bytes = rss->swap_bytes;
}

static void fill_heap(struct mt_stats_snapshot *to, const struct mt_snapshot *now)
{
	const struct mt_heap_figures *heap = mt_heap_sample_figures();

	/* of one reading, so that the difference is the file pages at that moment */
	to->rss_bytes = now->rss_bytes;
	/* the peak is read more seldom */
	to->rss_peak_bytes = mt_max_u64(to->rss_peak_bytes, now->rss_bytes);
	to->rss_anon_bytes = now->anon_bytes;
	if (now->usage_known)
		to->minor_faults_count = now->faults_count;
	to->heap_live_bytes = now->live_bytes;
	if (is_counted) {
		to->threads_count = totals.threads_count;
		to->heap_live_bytes = totals.live_bytes;
		to->heap_allocated_bytes = totals.allocated_bytes;
		to->heap_freed_bytes = totals.freed_bytes;
	}
	if (is_full_sum && to->heap_live_bytes > to->heap_live_peak_bytes)
		to->heap_live_peak_bytes = to->heap_live_bytes;
	to->heap_alloc_count = heap->alloc_count;
	to->heap_free_count = heap->free_count;
	/* An estimate is good enough for a decision, not for publication. */
	if (!mt_backend()->live_unknown) {
		to->heap_idle_bytes = policy.idle_bytes;
		to->heap_dirty_bytes =
			now->dirty_known ? now->dirty_bytes : mt_heap_sample_dirty_bytes();
	}
	to->heap_active_bytes = heap->active_bytes;
	to->heap_resident_bytes = heap->resident_bytes;
	to->heap_mapped_bytes = heap->mapped_bytes;
	to->heap_retained_bytes = heap->retained_bytes;
	to->heap_metadata_bytes = heap->metadata_bytes;
	to->heap_thread_cache_bytes = heap->thread_cache_bytes;
	to->heap_arenas_count = heap->arenas_count;
}

static void fill(const struct mt_snapshot *now, bool with_status)
{
	struct mt_stats_snapshot *to;
	struct mt_rss_full rss;
	bool known = false;

	if (with_status) {
		known = mt_rss_read_full(&rss); /* before the lock: the read is a system call */
		status_read_ns = now->now_ns;
		status_sample = *now;
	}
	to = mt_publish_lock();
	fill_heap(to, now);
	if (known)
		fill_status(to, &rss);
	to->uptime_ms = (now->now_ns - started_ns) / MT_NS_PER_MS;
	to->tick_ms = policy.tick_ns / MT_NS_PER_MS;
	to->refault_count = policy.refaults_count;
	to->refault_cost_ns = policy.refault_cost_ns;
	to->budget_balance_ns = policy.balance_ns > 0 ? (uint64_t)policy.balance_ns : 0;
	to->rounds_count = mt_rounds_count();
	to->rss_limit_bytes = mt_config()->rss_limit_mb * MT_MIB;
	to->budget_ratio_thousandths = mt_config()->budget_pct * 10;
	mt_publish_unlock();
}

void mt_tick_refresh(void)
{
	struct mt_snapshot now = read_all();

	mt_components_publish(true);
	fill(&now, true);
}

uint64_t mt_tick_in_use_bytes(void)
{
	struct mt_snapshot now = read_all();
	uint64_t most = mt_sat_sub(now.anon_bytes, now.live_bytes);
	uint64_t unused = mt_sat_sub(mt_heap_sample_figures()->resident_bytes, now.live_bytes);

	unused = mt_max_u64(unused, now.dirty_bytes);
	/* Pages that the allocator calls dirty or resident may never have been touched. */
	return mt_sat_sub(now.rss_bytes, mt_min_u64(unused, most));
}

void mt_tick_reset_peak(void)
{
	mt_publish_lock()->heap_live_peak_bytes = 0;
	mt_publish_unlock();
}

/* ---- cleanups ---- */

/* before: the process before the cleanup; usage_known is false if it was not read. */
static void note_cleanup(const struct mt_stats_cleanup *cleanup, bool charged,
			 const struct mt_snapshot *before)
{
	struct mt_snapshot after = read_sample(true);
	uint64_t cost_ns = mt_cleanup_take_worker_purge_ns();

	mt_assert(mt_thread_is_ours());
	read_usage(&after);
	mt_heap_sample_note_trim(&after);
	mt_refill_note_purge(&refill, &after);
	if (cleanup->reason == MT_REASON_HUGE_PAGES)
		mt_refill_note_look(
			&refill, &after,
			mt_sat_sub(cleanup->anon_before_bytes, cleanup->anon_after_bytes) >=
				mt_policy_threshold_bytes(&after, mt_config()));
	mt_policy_note_purge(&policy, &after,
			     mt_sat_sub(cleanup->anon_before_bytes, cleanup->anon_after_bytes),
			     mt_policy_purge_cost_ns(cost_ns, before, &after), charged);
	mt_components_publish(true);
	fill(&after, true);
	mt_publish_write_after_cleanup();
	written_ns = after.now_ns;
}

void mt_tick_note_cleanup(const struct mt_stats_cleanup *cleanup, bool charged)
{
	const struct mt_snapshot unknown = {.usage_known = false};

	note_cleanup(cleanup, charged, &unknown);
}

static void purge(enum mt_reason reason)
{
	const struct mt_trim_request request = {.reason = reason, .level = MT_LEVEL_PURGE};
	struct mt_snapshot before = {.now_ns = mt_os_now_ns()};
	struct mt_stats_cleanup cleanup;

	read_usage(&before);
	mt_cleanup_run(&request, &cleanup);
	note_cleanup(&cleanup, true, &before);
}

static void note_cost(uint64_t cost_ns)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->ticks_count++;
	to->tick_cost_ns = cost_ns;
	to->ticks_cost_ns += cost_ns;
	mt_publish_unlock();
}

/* Returns whether huge pages have filled what was purged. The kernel tells only by a walk through
 * all page tables. */
static bool is_refilled(const struct mt_snapshot *now)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, mt_config());
	uint64_t dirty = now->dirty_known ? now->dirty_bytes : mt_heap_sample_dirty_bytes();
	uint64_t huge = 0;

	if (!mt_backend()->purge_again || !mt_config()->budget_pct || policy.balance_ns <= 0 ||
	    !mt_refill_is_suspected(&refill, now, dirty, threshold))
		return false;
	if (mt_rss_read_huge(&huge) && huge >= threshold)
		return true;
	mt_refill_note_purge(&refill, now);
	mt_refill_note_look(&refill, now, false);
	return false;
}

/* Notes memory that the program returned itself: its page faults are not charged to the policy. */
static void note_program_cleanup(struct mt_snapshot *now)
{
	uint64_t bytes = mt_cleanup_take_program_bytes();

	if (!bytes)
		return;
	read_usage(now);
	mt_heap_sample_invalidate();
	mt_policy_note_purge(&policy, now, bytes, 0, false);
}

/* Logs the reason for the decision, at MT_LOG_LEVEL=debug. */
static void log_decision(const struct mt_snapshot *now, const struct mt_plan *plan)
{
	if (!policy.idle_bytes && !plan->purge)
		return;
	mt_log(MT_LOG_DEBUG,
	       "%llu MB dirty, %llu MB idle, %llu us of faults a MB, balance %lld ms: %s",
	       MT_MB(now->dirty_bytes), MT_MB(policy.idle_bytes),
	       (unsigned long long)(policy.mib_fault_ns / 10 / policy.parallel_pct),
	       (long long)(policy.balance_ns / (int64_t)MT_NS_PER_MS),
	       plan->purge ? "purge" : "wait");
}

/* Changes of device figures do not show in the heap: with a device, only time decides on writes. */
static bool is_write_due(const struct mt_snapshot *now)
{
	bool still = policy.moved_ns < written_ns && !mt_devices_are_used();

	return now->now_ns - written_ns >= (still ? IDLE_WRITE_NS : WRITE_NS);
}

static void publish(const struct mt_snapshot *now, bool urgent)
{
	bool due = urgent || is_write_due(now);

	mt_components_publish(due);
	fill(now, is_status_due(now));
	if (!due)
		return;
	mt_publish_write();
	written_ns = now->now_ns;
}

uint64_t mt_tick_run(bool grown)
{
	uint64_t began_ns = mt_os_thread_cpu_ns();
	struct mt_snapshot now = read_sample(grown);
	struct mt_plan plan;
	uint64_t cost_ns;

	mt_assert(mt_thread_is_ours());
	note_program_cleanup(&now);
	if (grown)
		policy.tick_ns = 0;
	if (!now.usage_known && mt_policy_needs_usage(&policy, &now))
		read_usage(&now);
	mt_heap_sample_update(&now, &policy);
	policy.quota_pct = mt_cpu_load_quota_pct("", now.now_ns);
	plan = mt_policy_decide(&policy, &now, mt_config());
	mt_growth_purge_set_cost(mt_policy_mib_cost_ns(&policy));
	if (plan.round && mt_round_mode_of(mt_config()->round) == MT_ROUND_AUTO)
		(void)mt_rounds_end();
	log_decision(&now, &plan);
	publish(&now, plan.round);
	/* mt_sat_sub: a sandbox may refuse this clock at any time */
	cost_ns = mt_sat_sub(mt_os_thread_cpu_ns(), began_ns);
	note_cost(cost_ns);
	if (plan.purge)
		purge(plan.reason);
	else if (is_refilled(&now))
		purge(MT_REASON_HUGE_PAGES);
	mt_sweep_at_tick(now.now_ns);
	return mt_max_u64(plan.next_tick_ns, cost_ns * TICK_COST_SHARE);
}
