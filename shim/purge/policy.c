#include "purge/policy.h"

#include <string.h>

#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* ---- drops of live bytes ---- */

#define LOW_SAMPLES 2

/* By a quarter of the base, but at least a quarter of the smallest peak: the base of a device is
 * often close to 0. */
static bool has_risen(const struct mt_live_drop *live_drop, uint64_t live_bytes,
		      uint64_t smallest_bytes)
{
	uint64_t min_bytes = mt_max_u64(live_drop->base_bytes, smallest_bytes);

	return live_bytes > live_drop->base_bytes + min_bytes / 4;
}

/* Adds a sample. smallest_bytes: a smaller peak has no drops. Returns true if this sample
 * completes a drop; *out_round is then whether the drop ends a round, else it is not written. */
static bool live_drop_update(struct mt_live_drop *live_drop, uint64_t live_bytes,
			     uint64_t smallest_bytes, bool *out_round)
{
	uint64_t peak = live_drop->peak_bytes;

	if (has_risen(live_drop, live_bytes, smallest_bytes))
		live_drop->risen = true;
	if (live_bytes > peak)
		live_drop->peak_bytes = live_bytes;
	mt_assert(live_drop->peak_bytes >= live_bytes);
	if (peak < smallest_bytes || live_bytes > peak - peak / 5) {
		live_drop->low_samples = 0;
		return false;
	}
	if (++live_drop->low_samples < LOW_SAMPLES)
		return false;
	*out_round = live_drop->risen;
	live_drop->risen = false;
	live_drop->low_samples = 0;
	live_drop->peak_bytes = live_bytes; /* the next drop starts from here */
	live_drop->base_bytes = live_bytes;
	return true;
}

/* Notes that the other kind of memory ended a round: the rest of this fall belongs to it. */
static void live_drop_end_round(struct mt_live_drop *live_drop, uint64_t live_bytes)
{
	live_drop->risen = false;
	live_drop->base_bytes = live_bytes;
}

/* ---- policy ---- */

#define LONGEST_TICK_NS (5 * MT_NS_PER_S)
/* a smaller difference between ticks is no change */
#define MOVED_BYTES MT_MIB
/* in a longer tick, that much allocation for each such span */
#define MOVED_SPAN_NS MT_NS_PER_S
/* dirty bytes worth a purge once the heap has settled */
#define SETTLE_BYTES (MT_MIB / 4)
/* the balance saves up to the budget of this span */
#define BALANCE_SPAN_NS (3600 * MT_NS_PER_S)
/* the initial balance, and what a settled heap may owe: 3 % of 10 s */
#define FIRST_BALANCE_NS (MT_BUDGET_FIRST_MS * MT_NS_PER_MS)
/* dirty bytes must have been idle for this many times the cost of a purge and of their return */
#define IDLE_FACTOR 4
/* dirty bytes that fell by 1/16 or more since the last tick are being reused */
#define REUSE_SHARE 16
/* the return of less is not charged */
#define CHARGED_BYTES (8 * MT_MIB)
/* a smaller heap, or less memory on devices, has no drops of live bytes */
#define LIVE_DROP_BYTES (16 * MT_MIB)
/* touched in one tick: the system time of the tick is then mostly that of page faults */
#define BUSY_BYTES (16 * MT_MIB)
/* page faults of a MiB, before any is measured: 1 us for each page of 4 KiB; and its bounds */
#define FIRST_MIB_FAULT_NS (256 * 1000ull)
#define LEAST_MIB_FAULT_NS (FIRST_MIB_FAULT_NS / 4)
#define MOST_MIB_FAULT_NS  (FIRST_MIB_FAULT_NS * 20)
/* CPUs: of more threads that run, hardly all fault */
#define MOST_PARALLEL_PCT 400

void mt_policy_start(struct mt_policy *policy, uint64_t page_bytes, uint64_t now_ns)
{
	memset(policy, 0, sizeof(*policy));
	policy->page_bytes = page_bytes;
	policy->mib_fault_ns = FIRST_MIB_FAULT_NS;
	policy->parallel_pct = 100;
	policy->quota_pct = 100;
	policy->seen.now_ns = now_ns;
	policy->moved_ns = now_ns;
	policy->balance_ns = (int64_t)FIRST_BALANCE_NS;
}

uint64_t mt_policy_threshold_bytes(const struct mt_snapshot *now, const struct mt_config *cfg)
{
	return mt_config_slack_bytes(now->anon_bytes, cfg->slack_mb, cfg->slack_pct);
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
	bool is_owing = policy->returned_bytes < policy->purged_bytes;

	return !policy->ticked || now->rss_bytes >= policy->seen.rss_bytes + BUSY_BYTES ||
	       (is_owing &&
		now->rss_bytes >= policy->purged_rss_bytes + policy->returned_bytes + MOVED_BYTES);
}

/* ---- changes of the process, and the length of a tick ---- */

/* Returns how much allocation is a change: an idle server's timers go on allocating kilobytes, more
 * of them in a longer tick. */
static uint64_t moved_allocated_bytes(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t tick = now->now_ns - policy->seen.now_ns;

	return tick > MOVED_SPAN_NS ? MOVED_BYTES / 1000 * (tick / (MOVED_SPAN_NS / 1000))
				    : MOVED_BYTES;
}

static void note_movement(struct mt_policy *policy, const struct mt_snapshot *now,
			  const struct mt_config *cfg)
{
	uint64_t tick = cfg->tick_ms * MT_NS_PER_MS;

	if (mt_abs_diff(now->allocated_bytes, policy->seen.allocated_bytes) >=
		    moved_allocated_bytes(policy, now) ||
	    mt_abs_diff(now->live_bytes, policy->seen.live_bytes) >= MOVED_BYTES ||
	    mt_abs_diff(now->rss_bytes, policy->seen.rss_bytes) >= MOVED_BYTES) {
		policy->moved_ns = now->now_ns;
		policy->settled = false;
		policy->tick_ns = tick;
	} else if (mt_abs_diff(now->gpu_live_bytes, policy->seen.gpu_live_bytes) >= MOVED_BYTES) {
		policy->tick_ns = tick; /* the heap may settle meanwhile */
	} else {
		/* reaches 5 s after some 20 s without a change */
		policy->tick_ns += policy->tick_ns / 4;
	}
	policy->tick_ns = mt_max_u64(mt_min_u64(policy->tick_ns, LONGEST_TICK_NS), tick);
	mt_assert(policy->tick_ns >= tick);
}

/* ---- idle bytes ---- */

/* Returns whether the program allocated, since the last tick, enough to have used half of the dirty
 * pages: no other figure shows a buffer that came and went between two ticks. */
static bool is_burst(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, policy->seen.allocated_bytes) >=
	       now->dirty_bytes / 2;
}

static void restart_window(struct mt_policy *policy)
{
	policy->parts_count = 0;
	policy->idle_bytes = 0;
	policy->high_ns = 0;
}

/* Sets idle_bytes to the lowest dirty bytes of the last window, which is kept in halves: the
 * present one and two whole ones. 0 until a window has passed. */
static void note_dirty(struct mt_policy *policy, const struct mt_snapshot *now, uint64_t window_ns)
{
	uint64_t *lows = policy->low_bytes;
	uint64_t lowest = UINT64_MAX;

	if (!policy->parts_count)
		policy->window_ns = now->now_ns;
	if (!policy->parts_count || now->now_ns - policy->part_ns >= window_ns / 2) {
		memmove(lows + 1, lows, sizeof(policy->low_bytes) - sizeof(*lows));
		lows[0] = now->dirty_bytes;
		policy->part_ns = now->now_ns;
		if (policy->parts_count < MT_POLICY_PARTS_COUNT)
			policy->parts_count++;
	}
	lows[0] = mt_min_u64(lows[0], now->dirty_bytes);
	mt_assert(policy->parts_count > 0 && policy->parts_count <= MT_POLICY_PARTS_COUNT);
	for (uint32_t i = 0; i < policy->parts_count; i++)
		lowest = mt_min_u64(lowest, lows[i]);
	policy->idle_bytes = now->now_ns - policy->window_ns >= window_ns ? lowest : 0;
}

/* ---- drops of live bytes ---- */

/* Returns whether the heap has dropped. *out_round: heap or device memory has ended a round. */
static bool reaches_live_drop(struct mt_policy *policy, const struct mt_snapshot *now,
			      bool *out_round)
{
	bool heap_round = false;
	bool gpu_round = false;
	bool heap = live_drop_update(&policy->heap_live_drop, now->live_bytes, LIVE_DROP_BYTES,
				     &heap_round);

	(void)live_drop_update(&policy->gpu_live_drop, now->gpu_live_bytes, LIVE_DROP_BYTES,
			       &gpu_round);
	*out_round = heap_round || gpu_round;
	if (heap_round)
		live_drop_end_round(&policy->gpu_live_drop, now->gpu_live_bytes);
	if (gpu_round)
		live_drop_end_round(&policy->heap_live_drop, now->live_bytes);
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
	uint64_t usable_ns = (now->now_ns - policy->seen.now_ns) / 100 * policy->quota_pct;

	policy->balance_ns += (int64_t)(usable_ns / 100 * cfg->budget_pct);
	if (policy->balance_ns > balance_limit(cfg))
		policy->balance_ns = balance_limit(cfg);
	/* Cleanups by pressure are charged without limit: after up to an hour, purges run
	 * again. */
	if (policy->balance_ns < -balance_limit(cfg))
		policy->balance_ns = -balance_limit(cfg);
	mt_assert(policy->balance_ns <= balance_limit(cfg));
}

static uint64_t fault_cost_ns(const struct mt_policy *policy, uint64_t bytes)
{
	return bytes / 1024 * policy->mib_fault_ns / 1024 * 100 / policy->parallel_pct;
}

/* Threads that run at the same time fault at the same time, and the budget is one of wall time. A
 * span in which the program slept in part tells little, so that the share falls slowly. */
static void learn_parallel(struct mt_policy *policy, const struct mt_snapshot *now)
{
	const struct mt_snapshot *then = &policy->usage;
	uint64_t span = now->now_ns - then->now_ns;
	uint64_t ran = mt_sat_sub(now->cpu_ns, then->cpu_ns);

	if (!then->usage_known || span < 100)
		return;
	if (ran > span)
		policy->parallel_pct =
			(policy->parallel_pct + mt_min_u64(ran / (span / 100), MOST_PARALLEL_PCT)) /
			2;
	else
		policy->parallel_pct -= (policy->parallel_pct - 100 + 7) / 8;
}

/* Learns the cost of page faults from spans that were full of them: at first of any pages, then of
 * those that come back after a purge. Where a host gives a virtual machine its memory page by page,
 * a first touch costs up to ten times as much; where the host takes freed pages, a return does; and
 * a huge page costs less. The other system time of the span makes faults look dearer, never
 * cheaper: the cost rises slowly. */
static void learn_fault_cost(struct mt_policy *policy, const struct mt_snapshot *now)
{
	const struct mt_snapshot *then = &policy->usage;
	uint64_t faults = mt_sat_sub(now->faults_count, then->faults_count);
	uint64_t touched = mt_max_u64(mt_sat_sub(now->rss_bytes, then->rss_bytes),
				      faults * policy->page_bytes);
	uint64_t span = now->now_ns - then->now_ns;
	uint64_t tick = now->now_ns - policy->seen.now_ns;
	uint64_t each;
	bool returns;

	if (!then->usage_known || touched < BUSY_BYTES * (tick && span > tick ? span / tick : 1))
		return;
	each = mt_sat_sub(now->system_ns, then->system_ns) / (touched / MT_MIB);
	each = mt_max_u64(mt_min_u64(each, MOST_MIB_FAULT_NS), LEAST_MIB_FAULT_NS);
	returns = then->rss_bytes < policy->purged_below_bytes;
	if (!policy->fault_known || (returns && !policy->return_known))
		policy->mib_fault_ns = each;
	else if (each < policy->mib_fault_ns)
		policy->mib_fault_ns = (policy->mib_fault_ns + each) / 2;
	else if (returns || !policy->return_known)
		policy->mib_fault_ns += (each - policy->mib_fault_ns + 3) / 4;
	policy->fault_known = true;
	policy->return_known = policy->return_known || returns;
	mt_assert(policy->mib_fault_ns <= MOST_MIB_FAULT_NS);
}

/* Charges the purged pages that came back since the last charge. */
static void charge_returns(struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t back = mt_min_u64(mt_sat_sub(now->rss_bytes, policy->purged_rss_bytes),
				   policy->purged_bytes);
	uint64_t fresh = mt_sat_sub(back, policy->returned_bytes);
	uint64_t cost = fault_cost_ns(policy, fresh);
	uint64_t system = mt_sat_sub(now->system_ns, policy->usage.system_ns);

	if (!fresh)
		return;
	/* The learned cost is too high if the program spends system time on other things. */
	if (policy->usage.usage_known)
		cost = mt_min_u64(cost, system / policy->parallel_pct * 100);
	policy->balance_ns -= (int64_t)cost;
	policy->refault_cost_ns += cost;
	policy->refaults_count +=
		mt_min_u64(mt_sat_sub(now->faults_count, policy->usage.faults_count),
			   fresh / policy->page_bytes);
	policy->returned_bytes = back;
	mt_assert(policy->returned_bytes <= policy->purged_bytes);
}

/* Returns the cost of a purge and of the faults after it, if all pages come back. The purge itself
 * costs about a sixth of the faults. */
static int64_t expected_cost_ns(const struct mt_policy *policy, uint64_t bytes)
{
	return (int64_t)(fault_cost_ns(policy, bytes) / 6 * 7);
}

uint64_t mt_policy_mib_cost_ns(const struct mt_policy *policy)
{
	return (uint64_t)expected_cost_ns(policy, MT_MIB);
}

/* Returns whether the program is reusing dirty pages right now: the rest of them may be next. */
static bool is_reusing(const struct mt_policy *policy, const struct mt_snapshot *now)
{
	return now->dirty_bytes < policy->last_dirty_bytes - policy->last_dirty_bytes / REUSE_SHARE;
}

/* idle_ns: how long the dirty bytes have been idle. It is assumed that they stay idle as long
 * again, and until pages have come back once, that a return is no dearer than elsewhere. */
static bool may_purge(const struct mt_policy *policy, const struct mt_snapshot *now,
		      const struct mt_config *cfg, uint64_t idle_ns)
{
	int64_t cost = expected_cost_ns(policy, now->dirty_bytes);

	if (!policy->return_known)
		cost = mt_min_i64(cost, (int64_t)(now->dirty_bytes / MT_MIB * FIRST_MIB_FAULT_NS));
	/* A cost above the largest balance is paid off afterwards. */
	return cfg->budget_pct && policy->balance_ns >= mt_min_i64(cost, balance_limit(cfg)) &&
	       (int64_t)idle_ns >= cost * IDLE_FACTOR && !is_reusing(policy, now);
}

/* A settled heap need not wait until the balance covers a purge: the quiet period itself shows
 * that the pages are not needed soon. It pays the purge back before the next one. */
static bool may_settle(const struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg)
{
	return !policy->settled && is_still(policy, now, cfg) && now->dirty_bytes >= SETTLE_BYTES &&
	       cfg->budget_pct && policy->balance_ns >= -(int64_t)FIRST_BALANCE_NS;
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

uint64_t mt_policy_purge_cost_ns(uint64_t purge_cpu_ns, const struct mt_snapshot *before,
				 const struct mt_snapshot *after)
{
	uint64_t span = mt_sat_sub(after->now_ns, before->now_ns);
	uint64_t ran = mt_sat_sub(mt_sat_sub(after->cpu_ns, before->cpu_ns), purge_cpu_ns);

	if (!before->usage_known || !after->usage_known || ran >= span)
		return purge_cpu_ns;
	return mt_max_u64(purge_cpu_ns / 4, purge_cpu_ns / 100 * (ran * 100 / span));
}

void mt_policy_note_purge(struct mt_policy *policy, const struct mt_snapshot *after,
			  uint64_t returned_bytes, uint64_t cost_ns, bool charged)
{
	if (charged)
		policy->balance_ns -= (int64_t)cost_ns;
	policy->tick_ns = 0;
	restart_window(policy);
	policy->seen.rss_bytes = after->rss_bytes;
	policy->usage = *after;
	if (returned_bytes < CHARGED_BYTES)
		return;
	policy->purged_below_bytes = after->rss_bytes + returned_bytes;
	/* Pages of earlier purges may still come back: a fall in stages is purged in stages. */
	policy->purged_bytes =
		charged ? mt_sat_sub(policy->purged_bytes, policy->returned_bytes) + returned_bytes
			: 0;
	policy->purged_rss_bytes = after->rss_bytes;
	policy->returned_bytes = 0;
}

/* ---- one tick ---- */

/* Measures the idle bytes and decides whether to purge them. */
static void plan_purge(struct mt_policy *policy, const struct mt_snapshot *now,
		       const struct mt_config *cfg, bool live_drop, struct mt_plan *plan)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, cfg);
	uint64_t window_ns = cfg->idle_ms * MT_NS_PER_MS;
	uint64_t idle_ns;

	note_dirty(policy, now, window_ns);
	if (now->dirty_bytes < threshold)
		policy->high_ns = 0;
	else if (!policy->high_ns)
		policy->high_ns = now->now_ns;
	live_drop = live_drop && policy->high_ns;
	if (live_drop || policy->idle_bytes >= threshold) {
		/* a live drop is as good a sign as two windows */
		idle_ns = mt_max_u64(now->now_ns - policy->high_ns,
				     live_drop ? 2 * window_ns : window_ns);
		plan->reason = live_drop ? MT_REASON_LIVE_DROP : MT_REASON_IDLE;
		plan->purge = may_purge(policy, now, cfg, idle_ns);
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
	bool burst = is_burst(policy, now);
	bool live_drop;

	accrue(policy, now, cfg);
	if (now->usage_known) {
		learn_fault_cost(policy, now);
		learn_parallel(policy, now);
		charge_returns(policy, now);
		policy->usage = *now;
	}
	note_movement(policy, now, cfg);
	policy->seen = *now;
	policy->ticked = true;
	live_drop = reaches_live_drop(policy, now, &plan.round);
	if (!now->dirty_known || burst)
		restart_window(policy);
	if (now->dirty_known)
		plan_purge(policy, now, cfg, live_drop, &plan);
	policy->last_dirty_bytes = now->dirty_known ? now->dirty_bytes : 0;
	plan.next_tick_ns = next_tick_ns(policy, now, cfg);
	return plan;
}

/* ---- memory that huge pages have filled again ---- */

#define FIRST_WAIT_NS   (2 * MT_NS_PER_S)
#define LONGEST_WAIT_NS (3600 * MT_NS_PER_S)

static uint64_t unexplained_bytes(const struct mt_snapshot *now, uint64_t dirty_bytes)
{
	return mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), dirty_bytes) + 1;
}

bool mt_policy_refill_is_suspected(struct mt_refill *refill, const struct mt_snapshot *now,
				   uint64_t dirty_bytes, uint64_t threshold_bytes)
{
	uint64_t bytes = unexplained_bytes(now, dirty_bytes);

	if (!refill->floor_bytes)
		return false;
	refill->floor_bytes = mt_min_u64(refill->floor_bytes, bytes);
	return now->now_ns >= refill->not_before_ns &&
	       bytes - refill->floor_bytes >= threshold_bytes;
}

void mt_policy_refill_note_purge(struct mt_refill *refill, const struct mt_snapshot *after)
{
	refill->floor_bytes = unexplained_bytes(after, after->dirty_known ? after->dirty_bytes : 0);
	if (!refill->wait_ns)
		mt_policy_refill_note_look(refill, after, true);
}

void mt_policy_refill_note_look(struct mt_refill *refill, const struct mt_snapshot *after,
				bool helped)
{
	refill->wait_ns = helped ? FIRST_WAIT_NS : mt_min_u64(2 * refill->wait_ns, LONGEST_WAIT_NS);
	refill->not_before_ns = after->now_ns + refill->wait_ns;
}
