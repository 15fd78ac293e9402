#include "purge/policy.h"

#include <string.h>

#include "sys/saturating.h"
#include "sys/os.h"

#define LONGEST_TICK_NS (5 * MT_NS_PER_S)
/* less than that in a tick is no movement */
#define MOVED_BYTES MT_MIB
/* of what is allocated, in a longer tick, that much in each such span */
#define MOVED_SPAN_NS MT_NS_PER_S
/* worth a purge once nothing moves */
#define SETTLE_BYTES MT_MIB
/* the budget of this span is the most that can be saved up */
#define BALANCE_SPAN_NS (3600 * MT_NS_PER_S)
/* to begin with: what 3 % of 10 s are */
#define FIRST_BALANCE_NS (300 * MT_NS_PER_MS)
/* a purge while the program sleeps is charged with this part of it */
#define SLEEP_SHARE 4
/* the rarest purge that is worth while: every fourth opportunity */
#define CYCLES_PER_PURGE 4
#define FIRST_PAUSE_NS   (30 * MT_NS_PER_S)
#define LONGEST_PAUSE_NS (600 * MT_NS_PER_S)
/* less returned by a purge is not worth remembering */
#define BACKOFF_BYTES (8 * MT_MIB)
/* a smaller heap has no drops of live bytes */
#define LIVE_DROP_BYTES (16 * MT_MIB)
/* nor has a device that less is held of */
#define GPU_LIVE_DROP_BYTES (16 * MT_MIB)
/* in one tick: system time is then mostly theirs */
#define BUSY_FAULTS    4096
#define USAGE_PAUSE_NS MT_NS_PER_S
/* times what was measured first; more is something else */
#define FAULT_COST_MAX_FACTOR 20

void mt_policy_start(struct mt_policy *policy, const struct mt_costs *costs, uint64_t now_ns)
{
	memset(policy, 0, sizeof(*policy));
	policy->costs = *costs;
	policy->first_fault_ns = costs->fault_ns;
	policy->seen_ns = now_ns;
	policy->moved_ns = now_ns;
	policy->balance_ns = (int64_t)FIRST_BALANCE_NS;
	policy->probe_pause_ns = FIRST_PAUSE_NS;
}

uint64_t mt_policy_threshold_bytes(const struct mt_snapshot *now, const struct mt_config *cfg)
{
	uint64_t slack = cfg->slack_mb * MT_MIB;
	uint64_t share = now->rss_bytes / 100 * cfg->slack_pct;

	return mt_max_u64(slack, share);
}

static bool is_still(const struct mt_policy *policy, const struct mt_snapshot *now,
		     const struct mt_config *cfg)
{
	return now->now_ns - policy->moved_ns >= cfg->settle_ms * MT_NS_PER_MS;
}

bool mt_policy_needs_dirty(const struct mt_policy *policy, const struct mt_snapshot *now,
			   const struct mt_config *cfg)
{
	uint64_t bound = mt_sat_sub(now->anon_bytes, now->live_bytes);

	if (bound >= mt_policy_threshold_bytes(now, cfg))
		return true;
	return !policy->settled && bound >= SETTLE_BYTES && is_still(policy, now, cfg);
}

bool mt_policy_needs_usage(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	bool owing = policy->purged_ns && policy->returned_bytes < policy->purged_bytes;

	if (!policy->ticked ||
	    (owing &&
	     now->rss_bytes >= policy->purged_rss_bytes + policy->returned_bytes + MOVED_BYTES) ||
	    now->rss_bytes >= policy->seen_rss_bytes + BUSY_FAULTS * policy->costs.page_bytes)
		return true;
	return owing && policy->moved_ns >= policy->seen_usage_ns &&
	       now->now_ns - policy->seen_usage_ns >= USAGE_PAUSE_NS;
}

/* ---- movement, and the tick that follows from it ---- */

/* A server's timers go on allocating their kilobytes while it lies idle: the longer the tick, the
 * more of them. */
static uint64_t moved_allocated_bytes(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t tick = now->now_ns - policy->seen_ns;

	return tick > MOVED_SPAN_NS ? MOVED_BYTES / 1000 * (tick / (MOVED_SPAN_NS / 1000))
				    : MOVED_BYTES;
}

static void note_movement(struct mt_policy *policy, const struct mt_snapshot *now,
			  const struct mt_config *cfg)
{
	uint64_t tick = cfg->tick_ms * MT_NS_PER_MS;

	if (mt_abs_diff(now->allocated_bytes, policy->seen_allocated_bytes) >=
		    moved_allocated_bytes(policy, now) ||
	    mt_abs_diff(now->live_bytes, policy->seen_live_bytes) >= MOVED_BYTES ||
	    mt_abs_diff(now->rss_bytes, policy->seen_rss_bytes) >= MOVED_BYTES) {
		policy->moved_ns = now->now_ns;
		policy->settled = false;
		policy->tick_ns = tick;
	} else if (mt_abs_diff(now->gpu_live_bytes, policy->seen_gpu_live_bytes) >= MOVED_BYTES) {
		policy->tick_ns = tick; /* a heap that stands still may settle meanwhile */
	} else {
		policy->tick_ns += policy->tick_ns / 4; /* 5 s after half a minute of stillness */
	}
	policy->tick_ns = mt_max_u64(mt_min_u64(policy->tick_ns, LONGEST_TICK_NS), tick);
}

static void note_usage(struct mt_policy *policy, const struct mt_snapshot *now)
{
	if (!now->usage_known)
		return;
	policy->seen_usage_ns = now->now_ns;
	policy->seen_faults_count = now->faults_count;
	policy->seen_cpu_ns = now->cpu_ns;
	policy->seen_system_ns = now->system_ns;
}

static void note_seen(struct mt_policy *policy, const struct mt_snapshot *now)
{
	policy->seen_ns = now->now_ns;
	policy->seen_live_bytes = now->live_bytes;
	policy->seen_gpu_live_bytes = now->gpu_live_bytes;
	policy->seen_allocated_bytes = now->allocated_bytes;
	policy->seen_rss_bytes = now->rss_bytes;
	note_usage(policy, now);
}

/* ---- idle bytes ---- */

/* The program has allocated, since the last tick, enough to have had half of the dirty pages in
 * use: between two ticks nothing else would show that a buffer came and went. */
static bool is_burst(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, policy->seen_allocated_bytes) >=
	       now->dirty_bytes / 2;
}

/* Keeps one sample older than the window, so that the window is known to be covered. */
static void note_dirty(struct mt_policy *policy, const struct mt_snapshot *now, uint64_t window_ns)
{
	struct mt_policy_sample *window = policy->window;
	uint32_t drop = 0;

	while (drop + 1 < policy->window_count &&
	       now->now_ns - window[drop + 1].time_ns >= window_ns)
		drop++;
	if (policy->window_count == MT_POLICY_WINDOW_COUNT && drop == 0)
		drop = 1;
	if (drop) {
		policy->window_count -= drop;
		memmove(window, window + drop, policy->window_count * sizeof(*window));
	}
	/* Ticks much shorter than the window share a sample, or the window would never be covered.
	 */
	if (policy->window_count) {
		struct mt_policy_sample *last = &window[policy->window_count - 1];

		if (now->now_ns - last->time_ns < window_ns / (MT_POLICY_WINDOW_COUNT / 2)) {
			last->dirty_bytes = mt_min_u64(last->dirty_bytes, now->dirty_bytes);
			return;
		}
	}
	window[policy->window_count++] = (struct mt_policy_sample){now->now_ns, now->dirty_bytes};
}

static uint64_t idle_bytes(const struct mt_policy *policy, const struct mt_snapshot *now,
			   uint64_t window_ns)
{
	uint64_t lowest = UINT64_MAX;

	if (policy->window_count == 0 || now->now_ns - policy->window[0].time_ns < window_ns)
		return 0;
	for (uint32_t i = 0; i < policy->window_count; i++)
		lowest = mt_min_u64(lowest, policy->window[i].dirty_bytes);
	return lowest;
}

/* ---- drops of live bytes ---- */

/* True when the heap has reached one. *out_round: one of either kind has ended a round. */
static bool reaches_live_drop(struct mt_policy *policy, const struct mt_snapshot *now,
			      bool *out_round)
{
	bool heap_round = false;
	bool gpu_round = false;
	bool heap = mt_live_drop_update(&policy->heap_live_drop, now->live_bytes, LIVE_DROP_BYTES,
					&heap_round);

	(void)mt_live_drop_update(&policy->gpu_live_drop, now->gpu_live_bytes, GPU_LIVE_DROP_BYTES,
				  &gpu_round);
	*out_round = heap_round || gpu_round;
	if (heap_round)
		mt_live_drop_end_round(&policy->gpu_live_drop, now->gpu_live_bytes);
	if (gpu_round)
		mt_live_drop_end_round(&policy->heap_live_drop, now->live_bytes);
	return heap;
}

/* ---- governor ---- */

static int64_t balance_limit(const struct mt_config *cfg)
{
	int64_t span = (int64_t)(BALANCE_SPAN_NS / 100 * cfg->budget_pct);

	return mt_max_i64(span, (int64_t)FIRST_BALANCE_NS);
}

static void accrue(struct mt_policy *policy, const struct mt_snapshot *now,
		   const struct mt_config *cfg)
{
	policy->balance_ns += (int64_t)((now->now_ns - policy->seen_ns) / 100 * cfg->budget_pct);
	if (policy->balance_ns > balance_limit(cfg))
		policy->balance_ns = balance_limit(cfg);
	/* What pressure has had cleaned is charged without limit: an hour later, not days, purges
	 * are made again. */
	if (policy->balance_ns < -balance_limit(cfg))
		policy->balance_ns = -balance_limit(cfg);
}

/* What it cost that bytes came back by so many faults: where there were fewer faults than small
 * pages, the rest came by huge pages. */
static uint64_t return_cost_ns(const struct mt_costs *costs, uint64_t bytes, uint64_t faults)
{
	uint64_t small = faults * costs->page_bytes < bytes ? faults : bytes / costs->page_bytes;
	uint64_t rest = bytes - small * costs->page_bytes;

	if (!costs->huge_page_bytes || !costs->huge_fault_ns)
		return bytes / costs->page_bytes * costs->fault_ns;
	return small * costs->fault_ns + rest / costs->huge_page_bytes * costs->huge_fault_ns;
}

static double mean(double old, double new)
{
	return old > 0 ? (old + new) / 2 : new;
}

/* The last purge's story is over: what it and the return of its pages cost. What has come back
 * since then may be what purges before it took away (a fall in stages), so each cost is shared
 * among the bytes that it was for. */
static void learn_cost(struct mt_policy *policy)
{
	if (!policy->learned && policy->last_bytes) {
		double purge = (double)policy->purge_cost_ns / (double)policy->last_bytes;
		double back = (double)policy->return_cost_ns / (double)policy->purged_bytes;

		policy->cost_per_byte = mean(policy->cost_per_byte, purge + back);
	}
	policy->learned = true;
}

/* What a fault costs was measured once, and is corrected by every tick that was full of them: in a
 * virtual machine a page that the host has taken back costs several times as much. */
static void learn_fault(struct mt_policy *policy, uint64_t faults, uint64_t system_ns,
			uint64_t ticks)
{
	uint64_t each;

	if (faults < BUSY_FAULTS * ticks)
		return;
	each = system_ns / faults;
	each = mt_min_u64(each, policy->first_fault_ns * FAULT_COST_MAX_FACTOR);
	if (each > policy->first_fault_ns / 2)
		policy->costs.fault_ns = (policy->costs.fault_ns + each) / 2;
}

/* How many threads of the program run at a time, 1 or more, while it runs. A span that was slept
 * through in part does not tell: then it is what those said that were not. */
static void learn_parallel(struct mt_policy *policy, uint64_t running_ns, uint64_t span_ns)
{
	if (running_ns > span_ns && span_ns)
		policy->parallel = mean(policy->parallel, (double)running_ns / (double)span_ns);
}

/* Charges what has come back since it was last charged, as the wall time that it took: threads that
 * run at the same time take their faults at the same time. */
static void charge_returns(struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t back = mt_sat_sub(now->rss_bytes, policy->purged_rss_bytes);
	uint64_t faults = mt_sat_sub(now->faults_count, policy->seen_faults_count);
	uint64_t span = mt_sat_sub(now->now_ns, policy->seen_usage_ns);
	uint64_t tick = mt_sat_sub(now->now_ns, policy->seen_ns);
	uint64_t running = mt_sat_sub(now->cpu_ns, policy->seen_cpu_ns);
	uint64_t cost;
	uint64_t fresh; /* bytes that came back since the last time */
	uint64_t ours;  /* of them, taken away by a purge that nobody had asked for */
	double share;

	if (!now->usage_known)
		return;
	learn_fault(policy, faults, mt_sat_sub(now->system_ns, policy->seen_system_ns),
		    tick && span > tick ? span / tick : 1);
	learn_parallel(policy, running, span);
	back = mt_min_u64(back, policy->purged_bytes);
	if (!policy->purged_ns || back <= policy->returned_bytes)
		return;
	fresh = back - policy->returned_bytes;
	ours = mt_min_u64(fresh, policy->owed_bytes);
	cost = return_cost_ns(&policy->costs, fresh, faults);
	if (policy->parallel > 1)
		cost = (uint64_t)((double)cost / policy->parallel);
	share = (double)ours / (double)fresh;
	policy->balance_ns -= (int64_t)((double)cost * share);
	policy->owed_bytes -= ours;
	policy->return_cost_ns += cost;
	policy->refault_cost_ns += (uint64_t)((double)cost * share);
	policy->refaults_count += (uint64_t)((double)faults * share);
	policy->returned_bytes = back;
}

/* An opportunity opens when there is something to purge, and is over when it was purged or the
 * program has taken half of it back. */
static void note_opportunity(struct mt_policy *policy, const struct mt_snapshot *now,
			     bool something, bool burst)
{
	if (policy->open &&
	    (burst || !now->dirty_known || now->dirty_bytes < policy->opened_dirty_bytes / 2))
		policy->open = false;
	if (policy->open || !something)
		return;
	if (policy->opened_ns)
		policy->cycle_ns = (uint64_t)mean((double)policy->cycle_ns,
						  (double)(now->now_ns - policy->opened_ns));
	policy->open = true;
	policy->opened_ns = now->now_ns;
	policy->opened_dirty_bytes = now->dirty_bytes;
	learn_cost(policy);
}

/* What a purge and the return of its pages would cost: as learned, or before that as if all came
 * back, by small pages. A purge was measured at a sixth of the faults that follow it. */
static int64_t expected_cost_ns(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	double first = (double)policy->costs.fault_ns / (double)policy->costs.page_bytes * 7 / 6;

	return (int64_t)((policy->cost_per_byte > 0 ? policy->cost_per_byte : first) *
			 (double)now->dirty_bytes);
}

/* Expected cost against the budget of the time that one purge has to last. */
static bool is_worth_cost(const struct mt_policy *policy, const struct mt_snapshot *now,
			  const struct mt_config *cfg)
{
	uint64_t opened = policy->open ? now->now_ns - policy->opened_ns : 0;
	uint64_t span = policy->cycle_ns * CYCLES_PER_PURGE;

	if (!policy->cycle_ns)
		return true;
	span = mt_max_u64(span, opened);
	return expected_cost_ns(policy, now) <= (int64_t)(span / 100 * cfg->budget_pct);
}

/* Early in the cycle, or when it has been overdue for long: not shortly before the pages are wanted
 * again. */
static bool is_good_time(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t opened = now->now_ns - policy->opened_ns;

	return !policy->open || !policy->cycle_ns || opened <= policy->cycle_ns / 2 ||
	       opened >= policy->cycle_ns * 2;
}

static bool may_purge(struct mt_policy *policy, const struct mt_snapshot *now,
		      const struct mt_config *cfg)
{
	int64_t wanted = expected_cost_ns(policy, now);

	/* What no saving can cover is paid for afterwards. */
	wanted = mt_min_i64(wanted, balance_limit(cfg));
	if (!cfg->budget_pct || policy->balance_ns < wanted || !is_good_time(policy, now))
		return false;
	if (is_worth_cost(policy, now, cfg)) {
		policy->probe_pause_ns = FIRST_PAUSE_NS;
		return true;
	}
	if (now->now_ns - policy->purged_ns < policy->probe_pause_ns)
		return false;
	policy->probe_pause_ns = mt_min_u64(policy->probe_pause_ns * 2, LONGEST_PAUSE_NS);
	return true;
}

/* A heap that has come to rest need not wait until a purge is saved for: it may be owed, on top of
 * what the settle time itself gives, and is paid off before the next one. So the budget holds for a
 * program that rests every minute, and one that has just begun, or whose purges were dear, is
 * purged when it falls idle. That the time is good the rest shows. */
static bool may_settle(const struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg)
{
	int64_t most_owed_ns = (int64_t)(cfg->settle_ms * MT_NS_PER_MS / 100 * cfg->budget_pct);

	return !policy->settled && is_still(policy, now, cfg) && now->dirty_bytes >= SETTLE_BYTES &&
	       cfg->budget_pct && policy->balance_ns >= -most_owed_ns;
}

/* The end of the settle time is not slept through: a stretched tick ends with it. */
static uint64_t next_tick_ns(const struct mt_policy *policy, const struct mt_snapshot *now,
			     const struct mt_config *cfg)
{
	uint64_t left = mt_sat_sub(policy->moved_ns + cfg->settle_ms * MT_NS_PER_MS, now->now_ns);
	uint64_t least = cfg->tick_ms * MT_NS_PER_MS;

	if (policy->settled || !left || policy->tick_ns <= left)
		return policy->tick_ns;
	return mt_max_u64(left, least);
}

uint64_t mt_policy_purge_cost_ns(uint64_t purge_cpu_ns, uint64_t process_cpu_ns, uint64_t wall_ns)
{
	uint64_t others = mt_sat_sub(process_cpu_ns, purge_cpu_ns);
	uint64_t least = purge_cpu_ns / SLEEP_SHARE;
	uint64_t cost =
		wall_ns ? (uint64_t)((double)purge_cpu_ns * (double)others / (double)wall_ns)
			: purge_cpu_ns;

	return mt_max_u64(mt_min_u64(cost, purge_cpu_ns), least);
}

void mt_policy_note_purge(struct mt_policy *policy, const struct mt_snapshot *after,
			  uint64_t returned_bytes, uint64_t cost_ns, bool charged)
{
	if (charged)
		policy->balance_ns -= (int64_t)cost_ns;
	policy->open = false;
	policy->tick_ns = 0;
	policy->window_count = 0;
	policy->idle_bytes = 0;
	policy->seen_rss_bytes = after->rss_bytes;
	note_usage(policy, after);
	/* A purge that found next to nothing, right after another one say, teaches nothing about
	 * what bytes cost. */
	if (returned_bytes < BACKOFF_BYTES)
		return;
	learn_cost(policy);
	if (charged)
		policy->owed_bytes += returned_bytes;
	policy->purged_ns = after->now_ns;
	/* What earlier purges took away may still come back: a fall in stages is purged in stages.
	 */
	policy->purged_bytes =
		mt_sat_sub(policy->purged_bytes, policy->returned_bytes) + returned_bytes;
	policy->last_bytes = returned_bytes;
	policy->purged_rss_bytes = after->rss_bytes;
	policy->purge_cost_ns = cost_ns;
	policy->returned_bytes = 0;
	policy->return_cost_ns = 0;
	policy->learned = false;
}

/* ---- one tick ---- */

/* What freed memory there is, and whether it is time to give it back. */
static void plan_purge(struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg, bool live_drop, bool burst,
		       struct mt_plan *plan)
{
	uint64_t window_ns = cfg->idle_ms * MT_NS_PER_MS;
	uint64_t gate = mt_policy_threshold_bytes(now, cfg);
	bool idle;

	note_dirty(policy, now, window_ns);
	policy->idle_bytes = idle_bytes(policy, now, window_ns);
	live_drop = live_drop && now->dirty_bytes >= gate;
	idle = policy->idle_bytes >= gate;
	note_opportunity(policy, now, live_drop || idle, burst);
	if (live_drop || idle) {
		plan->reason = live_drop ? MT_REASON_LIVE_DROP : MT_REASON_IDLE;
		plan->purge = may_purge(policy, now, cfg);
	}
	if (!plan->purge && may_settle(policy, now, cfg)) {
		plan->reason = MT_REASON_SETTLE;
		plan->purge = policy->settled = true;
	}
	/* A window that is filling must not wait for a stretched tick. */
	if (plan->purge || (now->dirty_bytes >= gate && policy->idle_bytes == 0))
		policy->tick_ns = cfg->tick_ms * MT_NS_PER_MS;
}

struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now,
				const struct mt_config *cfg)
{
	struct mt_plan plan = {.reason = MT_REASON_IDLE};
	bool burst;
	bool live_drop;

	if (!policy->ticked) { /* what the process did before is not this tick's */
		policy->ticked = true;
		note_usage(policy, now);
	}
	accrue(policy, now, cfg);
	charge_returns(policy, now);
	note_movement(policy, now, cfg);
	burst = is_burst(policy, now);
	note_seen(policy, now);
	live_drop = reaches_live_drop(policy, now, &plan.round);
	plan.next_tick_ns = next_tick_ns(policy, now, cfg);
	if (!now->dirty_known || burst) {
		policy->window_count = 0;
		policy->idle_bytes = 0;
	}
	if (!now->dirty_known) {
		note_opportunity(policy, now, false, burst);
		return plan;
	}
	plan_purge(policy, now, cfg, live_drop, burst, &plan);
	plan.next_tick_ns = next_tick_ns(policy, now, cfg);
	return plan;
}
