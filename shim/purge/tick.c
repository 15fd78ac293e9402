#include "purge/purge.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/cgroup.h"
#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/files.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/services.h"
#include "core/thread.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "purge/policy.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

/* ---- the interval between samples ---- */

/* bounds of the time between samples that are due only by age */
#define OVERDUE_NS MT_NS_PER_S
#define LONGEST_NS (2 * MT_NS_PER_S)
/* bytes freed since the last sample that make one due by age */
#define OVERDUE_BYTES MT_MIB
/* a result below the threshold is valid for this many times its cost: 0.005 % of the time */
#define PAUSE_SHARE 20000
/* share of the threshold by which the bound may rise before that */
#define RISE_SHARE 4

static uint64_t freed_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, now->live_bytes);
}

static uint64_t bound_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->anon_bytes, now->live_bytes);
}

static uint64_t pause_ns(const struct mt_last_sample *last)
{
	return mt_min_u64(last->cost_ns * PAUSE_SHARE, LONGEST_NS);
}

/* Returns whether a sample is due because of its age: one second, or two if it is expensive, and
 * only if memory was freed. The bound is too low if live memory is untouched or swapped out, and
 * outdated if the shim does not count. */
static bool is_overdue(const struct mt_last_sample *last, const struct mt_snapshot *now,
		       bool is_counted)
{
	if (now->now_ns - last->at_ns < mt_max_u64(pause_ns(last), OVERDUE_NS))
		return false;
	return !is_counted || mt_sat_sub(freed_bytes(now), last->freed_bytes) >= OVERDUE_BYTES;
}

/* Returns whether nothing was allocated, freed or touched since the last sample. */
static bool heap_is_unchanged(const struct mt_last_sample *last, const struct mt_snapshot *now)
{
	return now->allocated_bytes == last->allocated_bytes &&
	       freed_bytes(now) == last->freed_bytes && bound_bytes(now) == last->bound_bytes;
}

enum mt_sampling_interval mt_tick_interval_decide(const struct mt_last_sample *last,
						  const struct mt_policy *policy,
						  const struct mt_snapshot *now,
						  const struct mt_config *cfg, bool is_counted)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, cfg);
	bool is_low = last->dirty_bytes < threshold &&
		      bound_bytes(now) < last->bound_bytes + threshold / RISE_SHARE;
	bool is_valid = now->now_ns - last->at_ns < pause_ns(last) ||
			(is_counted && heap_is_unchanged(last, now));

	/* dirty bytes worth a purge are watched until they are purged or reused */
	if (!mt_policy_needs_dirty(policy, now, cfg) && last->dirty_bytes < threshold &&
	    !is_overdue(last, now, is_counted))
		return MT_SAMPLING_INTERVAL_SKIP;
	return last->at_ns && is_low && is_valid ? MT_SAMPLING_INTERVAL_REUSE
						 : MT_SAMPLING_INTERVAL_READ;
}

void mt_tick_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now)
{
	last->at_ns = now->now_ns;
	last->allocated_bytes = now->allocated_bytes;
	last->freed_bytes = freed_bytes(now);
	last->bound_bytes = bound_bytes(now);
}

/* ---- the sample of the heap ---- */

/* Measures the bytes that a purge would return (dirty bytes), as cheaply as the allocator allows,
 * and keeps the allocator's other figures. Over glibc free chunks are walked if live memory that
 * was never touched hides them (UNTOUCHED in tests/core/test_worker.py). Takes no lock of the shim;
 * the allocator may take its own. */

/* glibc: below this difference of resident and live bytes, walk its lists of free chunks */
#define WALK_BYTES MT_MIB

static struct mt_heap_figures last_figures;
static struct mt_last_sample last;
/* part of anon - live that a trim did not return; used if the allocator does not tell dirty
 * bytes */
static uint64_t kept_bytes;

/* glibc's own count of free bytes: */
static uint64_t last_free_bytes;
static uint64_t kept_free_bytes; /* free bytes that a trim has visited; glibc still counts them */

/* Returns the anonymous memory at the start, which counts as in use: before the first purge nothing
 * tells it from dirty memory. */
static uint64_t first_anon_bytes(void)
{
	struct mt_rss_quick rss = {0};

	(void)mt_rss_read_quick(&rss);
	return rss.anon_bytes;
}

static void sample_start(void)
{
	memset(&last_figures, 0, sizeof(last_figures));
	memset(&last, 0, sizeof(last));
	last_free_bytes = kept_free_bytes = 0;
	kept_bytes = mt_backend()->live_unknown ? first_anon_bytes() : 0;
}

/* Lowers kept_bytes with the difference: what a trim left and the program then used does not become
 * dirty by growing again. */
static void lower_kept(const struct mt_snapshot *now)
{
	uint64_t between = mt_sat_sub(now->anon_bytes, now->live_bytes);

	if (between < kept_bytes)
		kept_bytes = between;
}

/* For glibc. Dirty bytes are the resident bytes above live ones, beyond what the last trim left.
 * If there are none they are the free bytes that glibc counts, minus those that the last trim
 * visited and those that may be reused since. */
static void read_chunks(struct mt_snapshot *now)
{
	uint64_t between;
	uint64_t reused;

	lower_kept(now);
	between = mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), kept_bytes);
	now->dirty_known = true;
	/* glibc walks all free chunks under the lock of each arena: only if nothing cheaper
	 * tells. */
	if (between < WALK_BYTES && is_overdue(&last, now, true) &&
	    mt_backend()->figures(&last_figures)) {
		if (last_figures.free_bytes < kept_free_bytes)
			kept_free_bytes = last_figures.free_bytes;
		last_free_bytes = last_figures.free_bytes - kept_free_bytes;
		mt_tick_interval_note(&last, now);
	}
	reused = mt_sat_sub(now->allocated_bytes, last.allocated_bytes);
	now->dirty_bytes = mt_sat_sub(last_free_bytes, reused);
	if (now->dirty_bytes > now->anon_bytes)
		now->dirty_bytes = now->anon_bytes;
	if (now->dirty_bytes < between)
		now->dirty_bytes = between;
	last.dirty_bytes = now->dirty_bytes;
	mt_assert(now->dirty_bytes <= now->anon_bytes || now->dirty_bytes == between);
}

static bool read_figures(bool all)
{
	const struct mt_backend *backend = mt_backend();

	return (!all && backend->pages && backend->pages(&last_figures)) ||
	       backend->figures(&last_figures);
}

/* Asks the allocator. If it does not tell, the difference of resident and live bytes counts. If
 * live bytes are unknown too, the growth since the last purge counts. Leaves dirty bytes unknown if
 * no purge is possible. all: read every figure of the allocator, whatever that costs. */
static void sample_read(struct mt_snapshot *now, bool all)
{
	const struct mt_backend *backend = mt_backend();
	uint64_t began_ns;

	if (backend->counting == MT_COUNTING_CHUNKS) {
		read_chunks(now);
		return;
	}
	began_ns = mt_os_thread_cpu_ns();
	if (!read_figures(all) && (!backend->live_unknown || backend->purge_impossible))
		return;
	if (!all)
		last.cost_ns = mt_sat_sub(mt_os_thread_cpu_ns(), began_ns);
	if (backend->counting == MT_COUNTING_NONE)
		now->live_bytes = last_figures.live_bytes;
	lower_kept(now);
	now->dirty_known = true;
	now->dirty_bytes =
		backend->figures_show_dirty
			? last_figures.dirty_bytes
			: mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), kept_bytes);
	mt_tick_interval_note(&last, now);
	last.dirty_bytes = now->dirty_bytes;
}

/* Sets dirty_bytes and dirty_known if a measurement is due or the last one is still valid. Else
 * leaves dirty_known false. */
static void sample_update(struct mt_snapshot *now, const struct mt_policy *policy)
{
	enum mt_counting counting = mt_backend()->counting;
	enum mt_sampling_interval sampling = mt_tick_interval_decide(
		&last, policy, now, mt_config(), counting != MT_COUNTING_NONE);

	/* for chunks a read is only arithmetic */
	if (sampling == MT_SAMPLING_INTERVAL_REUSE && counting != MT_COUNTING_CHUNKS) {
		now->dirty_known = true;
		now->dirty_bytes = last.dirty_bytes;
	} else if (sampling != MT_SAMPLING_INTERVAL_SKIP) {
		sample_read(now, false);
	}
}

/* Discards the last results, after a purge by another thread. */
static void sample_invalidate(void)
{
	kept_bytes = UINT64_MAX;
	kept_free_bytes = UINT64_MAX;
	last_free_bytes = 0;
	last.dirty_bytes = 0;
	last.at_ns = 0;
}

/* Notes that a purge of this thread has gone through the whole heap, and measures again. after: the
 * process after the purge. */
static void sample_note_trim(struct mt_snapshot *after)
{
	sample_invalidate();
	if (mt_backend()->counting == MT_COUNTING_CHUNKS && mt_backend()->figures(&last_figures)) {
		kept_free_bytes = last_figures.free_bytes;
		mt_tick_interval_note(&last, after);
	}
	sample_read(after, true);
}

/* ---- the tick ---- */

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
/* between two looks which threads rest */
#define REST_NS MT_NS_PER_S
/* a tick lasts at least this many times its CPU time */
#define TICK_COST_SHARE 100

static struct mt_policy policy;
static struct mt_refill refill;
static uint64_t status_read_ns;
static struct mt_snapshot status_sample; /* figures of statm at that time */
static struct mt_snapshot written;       /* what the file has */

static struct mt_account_totals totals; /* as of the last sample */
static bool is_counted;                 /* the shim counts these totals */
/* totals covers all threads, not only the active ones */
static bool is_full_sum;
static struct mt_snapshot last_full_sum; /* the process at the last complete sum */

void mt_tick_start(bool is_first)
{
	const struct mt_backend_identity *backend = mt_backend_identity();
	const struct mt_publish_identity identity = {
		.allocator = backend->allocator,
		.evidence = backend->evidence,
		.mode = backend->mode,
		.conf = backend->conf ? backend->conf : "",
	};

	mt_assert(mt_thread_is_ours());
	if (is_first) {
		status_read_ns = 0;
		written.now_ns = 0;
		sample_start();
		refill = (struct mt_refill){0};
		mt_policy_start(&policy, mt_os_page_bytes(), mt_purge_started_ns());
	}
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
	       last.dirty_bytes < mt_policy_threshold_bytes(now, mt_config()) &&
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
	now->live_bytes = is_counted ? totals.live_bytes : last_figures.live_bytes;
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
	sample_read(&now, true);
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
	const struct mt_heap_figures *heap = &last_figures;

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
		to->heap_dirty_bytes = now->dirty_known ? now->dirty_bytes : last.dirty_bytes;
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
	to->uptime_ms = (now->now_ns - mt_purge_started_ns()) / MT_NS_PER_MS;
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

	mt_assert(mt_thread_is_ours());
	mt_components_publish(true);
	fill(&now, true);
}

uint64_t mt_tick_in_use_bytes(void)
{
	struct mt_snapshot now = read_all();
	uint64_t most = mt_sat_sub(now.anon_bytes, now.live_bytes);
	uint64_t unused = mt_sat_sub(last_figures.resident_bytes, now.live_bytes);

	mt_assert(mt_thread_is_ours());
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
	sample_note_trim(&after);
	mt_policy_refill_note_purge(&refill, &after);
	if (cleanup->reason == MT_REASON_HUGE_PAGES)
		mt_policy_refill_note_look(
			&refill, &after,
			mt_sat_sub(cleanup->anon_before_bytes, cleanup->anon_after_bytes) >=
				mt_policy_threshold_bytes(&after, mt_config()));
	mt_policy_note_purge(&policy, &after,
			     mt_sat_sub(cleanup->anon_before_bytes, cleanup->anon_after_bytes),
			     mt_policy_purge_cost_ns(cost_ns, before, &after), charged);
	mt_components_publish(true);
	fill(&after, true);
	mt_publish_write_after_cleanup();
	written = after;
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

	mt_assert(mt_thread_is_ours());
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

/* Charges CPU time to the budget that is none of a cleanup. */
static void charge(uint64_t cost_ns)
{
	if (!cost_ns)
		return;
	policy.balance_ns -= (int64_t)cost_ns;
	mt_publish_lock()->purge_cost_ns += cost_ns;
	mt_publish_unlock();
}

/* Returns whether huge pages have filled what was purged. The kernel tells only by a walk through
 * all page tables. */
static bool is_refilled(const struct mt_snapshot *now)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, mt_config());
	uint64_t dirty = now->dirty_known ? now->dirty_bytes : last.dirty_bytes;
	uint64_t huge = 0;

	if (!mt_backend()->purge_again || !mt_config()->budget_pct || policy.balance_ns <= 0 ||
	    !mt_policy_refill_is_suspected(&refill, now, dirty, threshold))
		return false;
	if (mt_rss_read_huge(&huge) && huge >= threshold)
		return true;
	mt_policy_refill_note_purge(&refill, now);
	mt_policy_refill_note_look(&refill, now, false);
	return false;
}

/* Notes memory that the program returned itself: its page faults are not charged to the policy. */
static void note_program_cleanup(struct mt_snapshot *now)
{
	uint64_t bytes = mt_cleanup_take_program_bytes();

	if (!bytes)
		return;
	read_usage(now);
	sample_invalidate();
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
	bool still = mt_abs_diff(now->live_bytes, written.live_bytes) < MOVED_BYTES &&
		     mt_abs_diff(now->rss_bytes, written.rss_bytes) < MOVED_BYTES &&
		     policy.moved_ns < written.now_ns && !mt_devices_are_used();

	return now->now_ns - written.now_ns >= (still ? IDLE_WRITE_NS : WRITE_NS);
}

static void publish(const struct mt_snapshot *now, bool urgent)
{
	bool due = urgent || is_write_due(now);

	mt_assert(mt_thread_is_ours());
	mt_components_publish(due);
	fill(now, is_status_due(now));
	if (!due)
		return;
	mt_publish_write();
	written = *now;
}

/* Threads that rest for one or two of these lose their caches. */
static void empty_caches(const struct mt_snapshot *now)
{
	static uint64_t next_look_ns;
	uint64_t began_ns, cost_ns;

	if (!mt_backend()->empty_caches || !mt_config()->budget_pct || now->now_ns < next_look_ns)
		return;
	began_ns = mt_os_thread_cpu_ns();
	if (mt_backend()->empty_caches(false))
		sample_invalidate();
	cost_ns = mt_sat_sub(mt_os_thread_cpu_ns(), began_ns);
	charge(cost_ns);
	next_look_ns = now->now_ns + REST_NS + cost_ns * TICK_COST_SHARE;
}

uint64_t mt_tick_run(bool grown)
{
	uint64_t began_ns = mt_os_thread_cpu_ns();
	struct mt_snapshot now = read_sample(grown);
	struct mt_plan plan;
	uint64_t cost_ns;

	mt_assert(mt_thread_is_ours());
	note_program_cleanup(&now);
	charge(mt_purge_growth_take_cost());
	if (mt_backend()->take_cost_ns)
		charge(mt_backend()->take_cost_ns());
	if (grown)
		policy.tick_ns = 0;
	if (!now.usage_known && mt_policy_needs_usage(&policy, &now))
		read_usage(&now);
	sample_update(&now, &policy);
	policy.quota_pct = mt_cgroup_load_quota_pct("", now.now_ns);
	plan = mt_policy_decide(&policy, &now, mt_config());
	mt_purge_growth_set_cost(mt_policy_mib_cost_ns(&policy));
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
	empty_caches(&now);
	mt_files_sweep_at_tick(now.now_ns);
	return mt_max_u64(plan.next_tick_ns, cost_ns * TICK_COST_SHARE);
}
