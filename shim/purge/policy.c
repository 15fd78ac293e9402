#include "purge/policy.h"

#include <string.h>

#include "sys/saturating.h"
#include "sys/os.h"

#define LONGEST_TICK_NS (5 * MT_NS_PER_S)
/* a smaller difference between ticks is no change */
#define MOVED_BYTES MT_MIB
/* in a longer tick, that much allocation for each such span */
#define MOVED_SPAN_NS MT_NS_PER_S
/* dirty bytes worth a purge once the heap has settled */
#define SETTLE_BYTES MT_MIB
/* the balance saves up to the budget of this span */
#define BALANCE_SPAN_NS (3600 * MT_NS_PER_S)
/* the initial balance: 3 % of 10 s */
#define FIRST_BALANCE_NS (300 * MT_NS_PER_MS)
/* a purge while the program sleeps is charged with 1/4 of its cost */
#define SLEEP_SHARE 4
/* a purge must be worth its cost once in so many opportunities */
#define CYCLES_PER_PURGE 4
#define FIRST_PAUSE_NS   (30 * MT_NS_PER_S)
#define LONGEST_PAUSE_NS (600 * MT_NS_PER_S)
/* a purge that returns less is not used for learning */
#define BACKOFF_BYTES (8 * MT_MIB)
/* a smaller heap has no drops of live bytes */
#define LIVE_DROP_BYTES (16 * MT_MIB)
/* the same for the memory held on devices */
#define GPU_LIVE_DROP_BYTES (16 * MT_MIB)
/* faults in one tick: system time is then mostly theirs */
#define BUSY_FAULTS    4096
#define USAGE_PAUSE_NS MT_NS_PER_S
/* highest cost of a fault, in units of the first measurement */
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

/* ---- changes of the process, and the length of a tick ---- */

/* Returns how much allocation is a change: an idle server's timers go on allocating kilobytes, more
 * of them in a longer tick. */
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
		policy->tick_ns = tick; /* the heap may settle meanwhile */
	} else {
		/* reaches 5 s after half a minute without a change */
		policy->tick_ns += policy->tick_ns / 4;
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

/* Returns whether the program allocated, since the last tick, enough to have used half of the dirty
 * pages: no other figure shows a buffer that came and went between two ticks. */
static bool is_burst(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, policy->seen_allocated_bytes) >=
	       now->dirty_bytes / 2;
}

/* Adds a sample to the idle window. Keeps one sample older than the window, which shows that the
 * window is covered. */
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
	/* Ticks much shorter than the window share a sample, else the buffer would never cover
	 * it. */
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

/* Returns whether the heap has dropped. *out_round: heap or device memory has ended a round. */
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

/* ---- budget ---- */

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
	/* Cleanups by pressure are charged without limit: after an hour at most, purges run
	 * again. */
	if (policy->balance_ns < -balance_limit(cfg))
		policy->balance_ns = -balance_limit(cfg);
}

/* Returns the cost of `faults` page faults that brought `bytes` back. With fewer faults than small
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

/* Learns the cost of the last purge, once its pages are back or it is superseded. Pages that came
 * back may be those of earlier purges (a fall in stages), so each cost is divided by the bytes it
 * was for. */
static void learn_cost(struct mt_policy *policy)
{
	if (!policy->learned && policy->last_bytes) {
		double purge = (double)policy->purge_cost_ns / (double)policy->last_bytes;
		double back = (double)policy->return_cost_ns / (double)policy->purged_bytes;

		policy->cost_per_byte = mean(policy->cost_per_byte, purge + back);
	}
	policy->learned = true;
}

/* Corrects the cost of a fault by each tick that was full of faults. In a virtual machine whose
 * host reclaims freed pages, a fault costs several times a first touch. */
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

/* Learns how many threads of the program run at the same time, from spans in which more than one
 * ran. A span in which the program slept tells nothing. */
static void learn_parallel(struct mt_policy *policy, uint64_t running_ns, uint64_t span_ns)
{
	if (running_ns > span_ns && span_ns)
		policy->parallel = mean(policy->parallel, (double)running_ns / (double)span_ns);
}

/* Charges the pages that came back since the last charge, as wall time: threads that run in
 * parallel take their faults in parallel. */
static void charge_returns(struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t back = mt_sat_sub(now->rss_bytes, policy->purged_rss_bytes);
	uint64_t faults = mt_sat_sub(now->faults_count, policy->seen_faults_count);
	uint64_t span = mt_sat_sub(now->now_ns, policy->seen_usage_ns);
	uint64_t tick = mt_sat_sub(now->now_ns, policy->seen_ns);
	uint64_t running = mt_sat_sub(now->cpu_ns, policy->seen_cpu_ns);
	uint64_t cost;
	uint64_t fresh; /* bytes that came back since the last charge */
	uint64_t ours;  /* of them, purged by this policy */
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

/* Opens an opportunity when there is something to purge. It closes with the purge, or when the
 * program has reused half of it. */
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

/* Returns the expected cost of a purge and of the faults after it: as learned, else as if all pages
 * came back one by one. The purge itself costs about a sixth of the faults. */
static int64_t expected_cost_ns(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	double first = (double)policy->costs.fault_ns / (double)policy->costs.page_bytes * 7 / 6;

	return (int64_t)((policy->cost_per_byte > 0 ? policy->cost_per_byte : first) *
			 (double)now->dirty_bytes);
}

/* Compares the expected cost with the budget of the time for which one purge must last. */
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

/* Returns whether it is early in the cycle, or long after its usual end: not shortly before the
 * program reuses the pages. */
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

	/* A cost above the largest balance is paid off afterwards. */
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

/* A settled heap need not wait until the balance covers a purge: it may borrow the budget of the
 * settle time, and pays it back before the next one. So the budget holds for a program that rests
 * every minute, and a young or expensive process is still purged when it goes idle. The rest itself
 * shows that the time is good. */
static bool may_settle(const struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg)
{
	int64_t most_owed_ns = (int64_t)(cfg->settle_ms * MT_NS_PER_MS / 100 * cfg->budget_pct);

	return !policy->settled && is_still(policy, now, cfg) && now->dirty_bytes >= SETTLE_BYTES &&
	       cfg->budget_pct && policy->balance_ns >= -most_owed_ns;
}

/* Shortens a long tick so that it ends with the settle time. */
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
	/* A purge that returned very little teaches nothing about the cost of bytes. */
	if (returned_bytes < BACKOFF_BYTES)
		return;
	learn_cost(policy);
	if (charged)
		policy->owed_bytes += returned_bytes;
	policy->purged_ns = after->now_ns;
	/* Pages of earlier purges may still come back: a fall in stages is purged in stages. */
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

/* Measures the idle bytes and decides whether to purge them. */
static void plan_purge(struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg, bool live_drop, bool burst,
		       struct mt_plan *plan)
{
	uint64_t window_ns = cfg->idle_ms * MT_NS_PER_MS;
	uint64_t threshold = mt_policy_threshold_bytes(now, cfg);
	bool idle;

	note_dirty(policy, now, window_ns);
	policy->idle_bytes = idle_bytes(policy, now, window_ns);
	live_drop = live_drop && now->dirty_bytes >= threshold;
	idle = policy->idle_bytes >= threshold;
	note_opportunity(policy, now, live_drop || idle, burst);
	if (live_drop || idle) {
		plan->reason = live_drop ? MT_REASON_LIVE_DROP : MT_REASON_IDLE;
		plan->purge = may_purge(policy, now, cfg);
	}
	if (!plan->purge && may_settle(policy, now, cfg)) {
		plan->reason = MT_REASON_SETTLE;
		plan->purge = policy->settled = true;
	}
	/* While the window fills, ticks stay short. */
	if (plan->purge || (now->dirty_bytes >= threshold && policy->idle_bytes == 0))
		policy->tick_ns = cfg->tick_ms * MT_NS_PER_MS;
}

struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now,
				const struct mt_config *cfg)
{
	struct mt_plan plan = {.reason = MT_REASON_IDLE};
	bool burst;
	bool live_drop;

	if (!policy->ticked) { /* earlier activity does not belong to this tick */
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
