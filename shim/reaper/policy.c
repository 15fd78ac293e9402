#include "reaper/policy.h"

#include <string.h>

#include "base/os.h"

#define LONGEST_TICK_NS   (5 * MT_NS_PER_S)
#define MOVED_BYTES       MT_MIB                   /* less than that in a tick is no movement */
#define SETTLE_BYTES      MT_MIB                   /* worth a purge once nothing moves */
#define BALANCE_SPAN_NS   (60 * MT_NS_PER_S)       /* the budget of this span is the most that can be saved up */
#define FIRST_BALANCE_NS  (500 * MT_NS_PER_MS)     /* to begin with: enough to try one purge of a large heap */
#define FIRST_PAUSE_NS    (30 * MT_NS_PER_S)
#define LONGEST_PAUSE_NS  (600 * MT_NS_PER_S)
#define TROUGH_TICKS      2

void mt_policy_start(struct mt_policy *policy, const struct mt_costs *costs, uint64_t now_ns)
{
	memset(policy, 0, sizeof(*policy));
	policy->costs = *costs;
	policy->seen_ns = now_ns;
	policy->moved_ns = now_ns;
	policy->balance_ns = (int64_t)FIRST_BALANCE_NS;
	policy->probe_pause_ns = FIRST_PAUSE_NS;
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t gate_bytes(const struct mt_snapshot *now, const struct mt_config *cfg)
{
	uint64_t slack = cfg->slack_mb * MT_MIB;
	uint64_t share = now->rss_bytes / 100 * cfg->slack_pct;

	return slack > share ? slack : share;
}

static bool is_still(const struct mt_policy *policy, const struct mt_snapshot *now, const struct mt_config *cfg)
{
	return now->now_ns - policy->moved_ns >= cfg->settle_ms * MT_NS_PER_MS;
}

bool mt_policy_wants_dirty(const struct mt_policy *policy, const struct mt_snapshot *now, const struct mt_config *cfg)
{
	uint64_t bound = above(now->anon_bytes, now->live_bytes);

	if (bound >= gate_bytes(now, cfg))
		return true;
	return !policy->settled && bound >= SETTLE_BYTES && is_still(policy, now, cfg);
}

/* ---- movement, and the tick that follows from it ---- */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void note_movement(struct mt_policy *policy, const struct mt_snapshot *now, const struct mt_config *cfg)
{
	uint64_t tick = cfg->tick_ms * MT_NS_PER_MS;

	if (distance(now->allocated_bytes, policy->seen_allocated_bytes) >= MOVED_BYTES ||
	    distance(now->rss_bytes, policy->seen_rss_bytes) >= MOVED_BYTES) {
		policy->moved_ns = now->now_ns;
		policy->settled = false;
		policy->tick_ns = tick;
	} else {
		policy->tick_ns += policy->tick_ns / 4; /* 5 s after half a minute of stillness */
	}
	if (policy->tick_ns > LONGEST_TICK_NS)
		policy->tick_ns = LONGEST_TICK_NS;
	if (policy->tick_ns < tick)
		policy->tick_ns = tick;
	policy->seen_allocated_bytes = now->allocated_bytes;
	policy->seen_rss_bytes = now->rss_bytes;
}

/* ---- idle bytes ---- */

/* Keeps one sample older than the window, so that the window is known to be covered. */
static void note_dirty(struct mt_policy *policy, const struct mt_snapshot *now, uint64_t window_ns)
{
	struct mt_policy_sample *window = policy->window;
	uint32_t drop = 0;

	while (drop + 1 < policy->window_count && now->now_ns - window[drop + 1].time_ns >= window_ns)
		drop++;
	if (policy->window_count == MT_POLICY_WINDOW_COUNT && drop == 0)
		drop = 1;
	if (drop) {
		policy->window_count -= drop;
		memmove(window, window + drop, policy->window_count * sizeof(*window));
	}
	window[policy->window_count++] = (struct mt_policy_sample){now->now_ns, now->dirty_bytes};
}

static uint64_t idle_bytes(const struct mt_policy *policy, const struct mt_snapshot *now, uint64_t window_ns)
{
	uint64_t lowest = UINT64_MAX;

	if (policy->window_count == 0 || now->now_ns - policy->window[0].time_ns < window_ns)
		return 0;
	for (uint32_t i = 0; i < policy->window_count; i++)
		if (policy->window[i].dirty_bytes < lowest)
			lowest = policy->window[i].dirty_bytes;
	return lowest;
}

/* ---- trough ---- */

/* True when live bytes have been 20 % under their peak for two ticks; the next fall is counted from there. *out_round is
 * set when they had risen by a quarter since the last trough: a fall in stages is one round. */
static bool reaches_trough(struct mt_policy *policy, const struct mt_snapshot *now, uint64_t gate, bool *out_round)
{
	uint64_t peak = policy->peak_live_bytes;

	if (now->live_bytes > policy->trough_live_bytes + policy->trough_live_bytes / 4)
		policy->risen = true;
	if (now->live_bytes > peak) {
		policy->peak_live_bytes = now->live_bytes;
		policy->low_ticks = 0;
		return false;
	}
	if (peak < gate || now->live_bytes > peak - peak / 5) {
		policy->low_ticks = 0;
		return false;
	}
	if (++policy->low_ticks < TROUGH_TICKS)
		return false;
	*out_round = policy->risen;
	policy->risen = false;
	policy->low_ticks = 0;
	policy->peak_live_bytes = now->live_bytes;
	policy->trough_live_bytes = now->live_bytes;
	return true;
}

/* ---- governor ---- */

static int64_t balance_limit(const struct mt_config *cfg)
{
	int64_t span = (int64_t)(BALANCE_SPAN_NS / 100 * cfg->budget_pct);

	return span > (int64_t)FIRST_BALANCE_NS ? span : (int64_t)FIRST_BALANCE_NS;
}

static void accrue(struct mt_policy *policy, const struct mt_snapshot *now, const struct mt_config *cfg)
{
	policy->balance_ns += (int64_t)((now->now_ns - policy->seen_ns) / 100 * cfg->budget_pct);
	if (policy->balance_ns > balance_limit(cfg))
		policy->balance_ns = balance_limit(cfg);
	policy->seen_ns = now->now_ns;
}

/* What it cost that bytes came back by so many faults: where there were fewer faults than small pages, the rest came
 * by huge pages. */
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

/* The last purge's story is over: what it and the return of its pages cost. */
static void learn_cost(struct mt_policy *policy)
{
	double spent = (double)policy->purge_cost_ns +
		       (double)return_cost_ns(&policy->costs, policy->charged_bytes, policy->charged_faults_count);

	if (!policy->learned && policy->purged_bytes)
		policy->cost_per_byte = mean(policy->cost_per_byte, spent / (double)policy->purged_bytes);
	policy->learned = true;
}

/* Charges what has come back since the last purge. */
static void charge_returns(struct mt_policy *policy, const struct mt_snapshot *now)
{
	uint64_t back = above(now->rss_bytes, policy->purged_rss_bytes);
	uint64_t faults = above(now->faults_count, policy->purged_faults_count);
	uint64_t before = return_cost_ns(&policy->costs, policy->charged_bytes, policy->charged_faults_count);
	uint64_t cost;

	if (back > policy->purged_bytes)
		back = policy->purged_bytes;
	if (!policy->purged_ns || back <= policy->charged_bytes)
		return;
	cost = above(return_cost_ns(&policy->costs, back, faults), before);
	policy->balance_ns -= (int64_t)cost;
	policy->refault_cost_ns += cost;
	policy->refaults_count += above(faults, policy->charged_faults_count);
	policy->charged_bytes = back;
	policy->charged_faults_count = faults;
}

/* An opportunity opens when there is something to purge, and is over when it was purged or the program has taken half
 * of it back. */
static void note_opportunity(struct mt_policy *policy, const struct mt_snapshot *now, bool something)
{
	if (policy->open && (!now->dirty_known || now->dirty_bytes < policy->opened_dirty_bytes / 2))
		policy->open = false;
	if (policy->open || !something)
		return;
	if (policy->opened_ns)
		policy->cycle_ns = (uint64_t)mean((double)policy->cycle_ns, (double)(now->now_ns - policy->opened_ns));
	policy->open = true;
	policy->opened_ns = now->now_ns;
	policy->opened_dirty_bytes = now->dirty_bytes;
	learn_cost(policy);
}

/* Expected cost against the budget of the time that one purge has to last. */
static bool pays(const struct mt_policy *policy, const struct mt_snapshot *now, uint64_t least_ns,
		 const struct mt_config *cfg)
{
	uint64_t opened = policy->open ? now->now_ns - policy->opened_ns : 0;
	uint64_t span = policy->cycle_ns;

	if (!policy->cycle_ns || policy->cost_per_byte <= 0)
		return true;
	if (opened > span)
		span = opened;
	if (least_ns > span)
		span = least_ns;
	return policy->cost_per_byte * (double)now->dirty_bytes <= (double)span / 100.0 * (double)cfg->budget_pct;
}

static bool may_purge(struct mt_policy *policy, const struct mt_snapshot *now, uint64_t least_ns,
		      const struct mt_config *cfg)
{
	if (!cfg->budget_pct || policy->balance_ns <= 0)
		return false;
	if (pays(policy, now, least_ns, cfg)) {
		policy->probe_pause_ns = FIRST_PAUSE_NS;
		return true;
	}
	if (now->now_ns - policy->purged_ns < policy->probe_pause_ns)
		return false;
	policy->probe_pause_ns *= 2;
	if (policy->probe_pause_ns > LONGEST_PAUSE_NS)
		policy->probe_pause_ns = LONGEST_PAUSE_NS;
	return true;
}

void mt_policy_purged(struct mt_policy *policy, const struct mt_snapshot *after, uint64_t returned_bytes,
		      uint64_t cost_ns, bool charged)
{
	if (charged)
		policy->balance_ns -= (int64_t)cost_ns;
	learn_cost(policy);
	policy->open = false;
	policy->tick_ns = 0;
	policy->purged_ns = after->now_ns;
	policy->purged_bytes = returned_bytes;
	policy->purged_rss_bytes = after->rss_bytes;
	policy->purged_faults_count = after->faults_count;
	policy->purge_cost_ns = cost_ns;
	policy->charged_bytes = 0;
	policy->charged_faults_count = 0;
	policy->learned = returned_bytes == 0;
	policy->window_count = 0;
	policy->idle_bytes = 0;
	policy->seen_rss_bytes = after->rss_bytes;
}

/* ---- one tick ---- */

struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now, const struct mt_config *cfg)
{
	uint64_t window_ns = cfg->idle_ms * MT_NS_PER_MS;
	uint64_t gate = gate_bytes(now, cfg);
	struct mt_plan plan = {.reason = MT_REASON_IDLE};
	bool trough;
	bool idle;

	accrue(policy, now, cfg);
	charge_returns(policy, now);
	note_movement(policy, now, cfg);
	trough = reaches_trough(policy, now, gate, &plan.round);
	plan.next_tick_ns = policy->tick_ns;
	if (!now->dirty_known) {
		policy->window_count = 0;
		policy->idle_bytes = 0;
		note_opportunity(policy, now, false);
		return plan;
	}
	note_dirty(policy, now, window_ns);
	policy->idle_bytes = idle_bytes(policy, now, window_ns);
	trough = trough && now->dirty_bytes >= gate;
	idle = policy->idle_bytes >= gate;
	note_opportunity(policy, now, trough || idle);
	if (trough || idle) {
		plan.reason = trough ? MT_REASON_TROUGH : MT_REASON_IDLE;
		plan.purge = may_purge(policy, now, 0, cfg);
	} else if (!policy->settled && is_still(policy, now, cfg) && now->dirty_bytes >= SETTLE_BYTES) {
		plan.reason = MT_REASON_SETTLE;
		plan.purge = may_purge(policy, now, cfg->settle_ms * MT_NS_PER_MS, cfg);
		policy->settled = plan.purge;
	}
	/* A window that is filling must not wait for a stretched tick. */
	if (!plan.purge && now->dirty_bytes >= gate && policy->idle_bytes == 0)
		policy->tick_ns = cfg->tick_ms * MT_NS_PER_MS;
	plan.next_tick_ns = policy->tick_ns;
	return plan;
}
