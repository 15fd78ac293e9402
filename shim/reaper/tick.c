#include "reaper/tick.h"

#include <string.h>

#include "account/account.h"
#include "backend/backend.h"
#include "base/config.h"
#include "base/log.h"
#include "base/os.h"
#include "reaper/actions.h"
#include "reaper/gpu.h"
#include "reaper/policy.h"
#include "reaper/rounds.h"
#include "sense/faults.h"
#include "sense/rss.h"
#include "stats/publish.h"

#define FULL_LOOK_NS    MT_NS_PER_S /* /proc/self/status is read at most this often between cleanups */
#define TICK_COST_SHARE 100         /* the tick is never shorter than that many times its cost */
#define ASK_PAUSE_NS    MT_NS_PER_S /* where resident minus live says nothing, the allocator is asked this often at most */
#define ASK_BYTES       MT_MIB      /* and once so much has been freed since */

static struct mt_policy policy;
static struct mt_heap_figures heap;
static uint64_t woke_ns;
static uint64_t full_look_ns;
static mt_tick_door door;
static uint64_t kept_bytes; /* of anon - live: what a trim did not return, where dirty bytes cannot be asked */

/* What the allocator said when it was last asked. */
static struct asked {
	uint64_t at_ns;
	uint64_t allocated_bytes; /* ever, at that time */
	uint64_t freed_bytes;
	uint64_t dirty_bytes;     /* what came of it */
	uint64_t free_bytes;      /* of them, by the allocator's own count of what is free */
	uint64_t kept_free_bytes; /* of that count: what a trim has already gone through */
} asked;

void mt_tick_use_door(mt_tick_door given)
{
	door = given;
}

/* Before any purge nothing tells what is dirty from what is in use: what is there by now counts as in use. */
static uint64_t first_anon_bytes(void)
{
	struct mt_rss_quick rss = {0};

	(void)mt_rss_read_quick(&rss);
	return rss.anon_bytes;
}

void mt_tick_start(void)
{
	const struct mt_backend_identity *who = mt_backend_identity();
	const struct mt_publish_identity identity = {
		.allocator = who->allocator,
		.evidence = who->evidence,
		.mode = who->mode,
		.conf = who->conf,
	};
	struct mt_costs costs = {.page_bytes = mt_os_page_bytes()};

	memset(&heap, 0, sizeof(heap));
	woke_ns = mt_os_now_ns();
	full_look_ns = 0;
	memset(&asked, 0, sizeof(asked));
	kept_bytes = mt_backend()->live_unknown ? first_anon_bytes() : 0;
	mt_faults_measure(&costs.fault_ns, &costs.huge_fault_ns, &costs.huge_page_bytes);
	mt_log(MT_LOG_DEBUG, "a fault costs %llu ns, a huge one %llu ns", (unsigned long long)costs.fault_ns,
	       (unsigned long long)costs.huge_fault_ns);
	mt_policy_start(&policy, &costs, mt_os_now_ns());
	mt_publish_start(mt_config(), &identity);
	mt_tick_refresh();
	mt_publish_write();
}

/* ---- sense ---- */

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static struct mt_snapshot sense_cheap(void)
{
	struct mt_snapshot now = {.now_ns = mt_os_now_ns()};
	struct mt_rss_quick rss = {0};
	struct mt_rss_usage usage;
	struct mt_account_totals totals = {0};

	(void)mt_rss_read_quick(&rss);
	now.rss_bytes = rss.rss_bytes;
	now.anon_bytes = rss.anon_bytes;
	if (mt_account_read(&totals)) {
		now.live_bytes = totals.live_bytes;
		now.allocated_bytes = totals.allocated_bytes;
	} else {
		now.live_bytes = heap.live_bytes;
	}
	mt_rss_read_usage(&usage);
	now.faults_count = usage.minor_faults_count;
	now.cpu_ns = usage.cpu_ns;
	now.system_ns = usage.system_ns;
	return now;
}

static uint64_t freed_bytes(const struct mt_snapshot *now)
{
	return above(now->allocated_bytes, now->live_bytes);
}

/* Resident minus live is no upper bound where live memory is untouched or swapped out, and where nobody counts it is as
 * old as the last answer. */
static bool is_ask_due(const struct mt_snapshot *now)
{
	if (now->now_ns - asked.at_ns < ASK_PAUSE_NS)
		return false;
	return mt_backend()->counting == MT_COUNTING_NONE || above(freed_bytes(now), asked.freed_bytes) >= ASK_BYTES;
}

static bool wants_dirty(const struct mt_snapshot *now)
{
	struct mt_snapshot told = *now;

	told.live_bytes = 0;
	told.anon_bytes = asked.dirty_bytes; /* what was worth a purge then is watched until it is purged or taken */
	return mt_policy_wants_dirty(&policy, now, mt_config()) || mt_policy_wants_dirty(&policy, &told, mt_config()) ||
	       is_ask_due(now);
}

/* What a trim left does not become dirty again when it grows anew. */
static void lower_kept(const struct mt_snapshot *now)
{
	uint64_t between = above(now->anon_bytes, now->live_bytes);

	if (between < kept_bytes)
		kept_bytes = between;
}

static void note_asked(const struct mt_snapshot *now)
{
	asked.at_ns = now->now_ns;
	asked.allocated_bytes = now->allocated_bytes;
	asked.freed_bytes = freed_bytes(now);
}

/* glibc: what lies between resident and live beyond what the last trim left there. Where that is nothing, what it
 * counts as free, less what the last trim has gone through (it stays counted) and what may have been taken since. */
static void sense_chunks(struct mt_snapshot *now)
{
	uint64_t between;
	uint64_t taken;

	lower_kept(now);
	between = above(above(now->anon_bytes, now->live_bytes), kept_bytes);
	now->dirty_known = true;
	/* It walks through all free chunks under each arena's lock: only where there is no other way to know. */
	if (between < ASK_BYTES && is_ask_due(now) && mt_backend()->figures(&heap)) {
		if (heap.free_bytes < asked.kept_free_bytes)
			asked.kept_free_bytes = heap.free_bytes;
		asked.free_bytes = heap.free_bytes - asked.kept_free_bytes;
		note_asked(now);
	}
	taken = above(now->allocated_bytes, asked.allocated_bytes);
	now->dirty_bytes = above(asked.free_bytes, taken);
	if (now->dirty_bytes > now->anon_bytes)
		now->dirty_bytes = now->anon_bytes;
	if (now->dirty_bytes < between)
		now->dirty_bytes = between;
}

/* What a purge would return: asked of the allocator; or what lies between resident and live, where live may be all
 * unknown and what has come since the last purge stands in. Nothing, where there is no way to purge. */
static void sense_dirty(struct mt_snapshot *now)
{
	const struct mt_backend *backend = mt_backend();

	if (backend->counting == MT_COUNTING_CHUNKS) {
		sense_chunks(now);
		asked.dirty_bytes = now->dirty_bytes;
		return;
	}
	if (!backend->figures(&heap) && (!backend->live_unknown || backend->purge_impossible))
		return;
	if (backend->counting == MT_COUNTING_NONE)
		now->live_bytes = heap.live_bytes;
	lower_kept(now);
	now->dirty_known = true;
	now->dirty_bytes = backend->figures_show_dirty ? heap.dirty_bytes :
							 above(above(now->anon_bytes, now->live_bytes), kept_bytes);
	note_asked(now);
	asked.dirty_bytes = now->dirty_bytes;
}

/* ---- stats ---- */

static void fill_full_look(struct mt_stats_snapshot *to)
{
	struct mt_rss_full full;

	if (!mt_rss_read_full(&full))
		return;
	to->rss_peak_bytes = full.peak_bytes;
	to->rss_anon_bytes = full.anon_bytes;
	to->rss_file_bytes = full.file_bytes;
	to->rss_shmem_bytes = full.shmem_bytes;
	to->swap_bytes = full.swap_bytes;
	to->signal_door = door ? door() : 0;
}

static void fill_heap(struct mt_stats_snapshot *to, const struct mt_snapshot *now)
{
	struct mt_account_totals totals = {0};

	to->rss_bytes = now->rss_bytes;
	to->minor_faults_count = now->faults_count;
	to->heap_live_bytes = now->live_bytes;
	if (mt_account_read(&totals)) {
		to->threads_count = totals.threads_count;
		to->heap_live_bytes = totals.live_bytes;
		to->heap_allocated_bytes = totals.allocated_bytes;
		to->heap_freed_bytes = totals.freed_bytes;
	}
	if (to->heap_live_bytes > to->heap_live_peak_bytes)
		to->heap_live_peak_bytes = to->heap_live_bytes;
	to->heap_alloc_count = heap.alloc_count;
	to->heap_free_count = heap.free_count;
	/* What only stands in for a figure that nobody has is good enough to act on, not to be told. */
	if (!mt_backend()->live_unknown) {
		to->heap_idle_bytes = policy.idle_bytes;
		to->heap_dirty_bytes = now->dirty_known ? now->dirty_bytes : asked.dirty_bytes;
	}
	to->heap_active_bytes = heap.active_bytes;
	to->heap_resident_bytes = heap.resident_bytes;
	to->heap_mapped_bytes = heap.mapped_bytes;
	to->heap_retained_bytes = heap.retained_bytes;
	to->heap_metadata_bytes = heap.metadata_bytes;
	to->heap_arenas_count = heap.arenas_count;
}

static void fill(const struct mt_snapshot *now, bool full_look)
{
	struct mt_stats_snapshot *to;

	mt_gpu_publish(full_look);
	to = mt_publish_lock();
	fill_heap(to, now);
	if (full_look)
		fill_full_look(to);
	to->uptime_ms = (now->now_ns - woke_ns) / MT_NS_PER_MS;
	to->tick_ms = policy.tick_ns / MT_NS_PER_MS;
	to->refault_count = policy.refaults_count;
	to->refault_cost_ns = policy.refault_cost_ns;
	to->budget_balance_ns = policy.balance_ns > 0 ? (uint64_t)policy.balance_ns : 0;
	to->rounds_count = mt_rounds_count();
	mt_publish_unlock();
}

void mt_tick_refresh(void)
{
	struct mt_snapshot now = sense_cheap();

	sense_dirty(&now);
	fill(&now, true);
}

void mt_tick_reset_peak(void)
{
	mt_publish_lock()->heap_live_peak_bytes = 0;
	mt_publish_unlock();
	mt_gpu_reset_peak();
}

/* ---- act ---- */

/* A trim has gone through all there was: what the next look finds is what it could not return. */
static void forget_dirty(void)
{
	kept_bytes = UINT64_MAX;
	asked.kept_free_bytes = UINT64_MAX;
	asked.free_bytes = 0;
	asked.dirty_bytes = 0;
}

void mt_tick_note_cleanup(const struct mt_stats_record *record, bool charged)
{
	struct mt_snapshot after = sense_cheap();

	forget_dirty();
	if (mt_backend()->counting == MT_COUNTING_CHUNKS && mt_backend()->figures(&heap)) {
		asked.kept_free_bytes = heap.free_bytes;
		note_asked(&after);
	}
	sense_dirty(&after);
	mt_policy_purged(&policy, &after, above(record->anon_before_bytes, record->anon_after_bytes), record->purge_ns,
			 charged);
	fill(&after, true);
	mt_publish_write();
}

static void purge(enum mt_reason reason)
{
	const struct mt_order order = {.reason = reason, .level = MT_LEVEL_PURGE};
	struct mt_stats_record record;

	mt_actions_clean(&order, &record);
	mt_tick_note_cleanup(&record, true);
}

static void note_cost(uint64_t cost_ns)
{
	struct mt_stats_snapshot *to = mt_publish_lock();

	to->ticks_count++;
	to->tick_cost_ns = cost_ns;
	to->ticks_cost_ns += cost_ns;
	mt_publish_unlock();
}

/* The program has trimmed by itself: the governor must not take the pages' return for its own cost. */
static void note_foreign_cleanup(const struct mt_snapshot *now)
{
	uint64_t bytes = mt_actions_foreign_bytes();

	if (!bytes)
		return;
	forget_dirty();
	mt_policy_purged(&policy, now, bytes, 0, false);
}

/* Why it was purged, or not; MT_LOG_LEVEL=debug. */
static void tell_decision(const struct mt_snapshot *now, const struct mt_plan *plan)
{
	if (!policy.open && !plan->purge)
		return;
	mt_log(MT_LOG_DEBUG, "%llu MB dirty, %llu MB idle, open for %llu ms, cycle %llu ms, %llu us a MB, balance %lld ms: %s",
	       (unsigned long long)(now->dirty_bytes / MT_MIB), (unsigned long long)(policy.idle_bytes / MT_MIB),
	       (unsigned long long)((now->now_ns - policy.opened_ns) / MT_NS_PER_MS),
	       (unsigned long long)(policy.cycle_ns / MT_NS_PER_MS),
	       (unsigned long long)(policy.cost_per_byte * (double)MT_MIB / 1000),
	       (long long)(policy.balance_ns / (int64_t)MT_NS_PER_MS), plan->purge ? "purge" : "wait");
}

uint64_t mt_tick_run(bool grown)
{
	uint64_t began_ns = mt_os_thread_cpu_ns();
	struct mt_snapshot now = sense_cheap();
	bool full_look = now.now_ns - full_look_ns >= FULL_LOOK_NS;
	struct mt_plan plan;
	uint64_t cost_ns;

	note_foreign_cleanup(&now);
	if (grown)
		policy.tick_ns = 0;
	if (wants_dirty(&now))
		sense_dirty(&now);
	plan = mt_policy_decide(&policy, &now, mt_config());
	if (plan.round && mt_round_mode_of(mt_config()->round) == MT_ROUND_AUTO)
		(void)mt_rounds_end();
	tell_decision(&now, &plan);
	if (full_look)
		full_look_ns = now.now_ns;
	fill(&now, full_look);
	cost_ns = mt_os_thread_cpu_ns() - began_ns;
	if (plan.purge)
		purge(plan.reason);
	began_ns = mt_os_thread_cpu_ns();
	mt_publish_write();
	cost_ns += mt_os_thread_cpu_ns() - began_ns;
	note_cost(cost_ns);
	return plan.next_tick_ns > cost_ns * TICK_COST_SHARE ? plan.next_tick_ns : cost_ns * TICK_COST_SHARE;
}
