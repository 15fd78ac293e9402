#include "purge/sampling_interval.h"

#include "sys/saturating.h"
#include "sys/os.h"

/* a question that nothing calls for is put that often, or as seldom as it is dear */
#define OVERDUE_NS MT_NS_PER_S
#define LONGEST_NS (2 * MT_NS_PER_S)
/* freed since, to be worth a question that nothing else calls for */
#define OVERDUE_BYTES MT_MIB
/* answers that find nothing stand for that many times what they cost: 0.005 % of time */
#define PAUSE_SHARE 20000
/* of the gate: what the bound may rise before that */
#define RISE_SHARE 4

static uint64_t freed_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->allocated_bytes, now->live_bytes);
}

static uint64_t bound_bytes(const struct mt_snapshot *now)
{
	return mt_sat_sub(now->anon_bytes, now->live_bytes);
}

static uint64_t pause_ns(const struct mt_asked *asked)
{
	uint64_t pause = asked->cost_ns * PAUSE_SHARE;

	return pause < LONGEST_NS ? pause : LONGEST_NS;
}

bool mt_sampling_interval_is_overdue(const struct mt_asked *asked, const struct mt_snapshot *now,
				     bool is_counted)
{
	uint64_t pause = pause_ns(asked);

	if (now->now_ns - asked->at_ns < (pause > OVERDUE_NS ? pause : OVERDUE_NS))
		return false;
	return !is_counted || mt_sat_sub(freed_bytes(now), asked->freed_bytes) >= OVERDUE_BYTES;
}

/* By the bound, or because of what was told: what was worth a purge then is watched until it is
 * purged or taken. */
static bool is_wanted(const struct mt_asked *asked, const struct mt_policy *policy,
		      const struct mt_snapshot *now, const struct mt_config *cfg)
{
	struct mt_snapshot told = *now;

	told.live_bytes = 0;
	told.anon_bytes = asked->dirty_bytes;
	return mt_policy_wants_dirty(policy, now, cfg) || mt_policy_wants_dirty(policy, &told, cfg);
}

enum mt_sampling_interval mt_sampling_interval_decide(const struct mt_asked *asked,
						      const struct mt_policy *policy,
						      const struct mt_snapshot *now,
						      const struct mt_config *cfg, bool is_counted)
{
	uint64_t gate = mt_policy_gate(now, cfg);

	if (!is_wanted(asked, policy, now, cfg) &&
	    !mt_sampling_interval_is_overdue(asked, now, is_counted))
		return MT_SAMPLING_INTERVAL_NOT;
	if (!asked->at_ns)
		return MT_SAMPLING_INTERVAL_NOW;
	if (is_counted && now->allocated_bytes == asked->allocated_bytes &&
	    freed_bytes(now) == asked->freed_bytes)
		return MT_SAMPLING_INTERVAL_STANDS;
	if (asked->dirty_bytes >= gate ||
	    bound_bytes(now) >= asked->bound_bytes + gate / RISE_SHARE)
		return MT_SAMPLING_INTERVAL_NOW;
	return now->now_ns - asked->at_ns < pause_ns(asked) ? MT_SAMPLING_INTERVAL_STANDS
							    : MT_SAMPLING_INTERVAL_NOW;
}

void mt_sampling_interval_note(struct mt_asked *asked, const struct mt_snapshot *now)
{
	asked->at_ns = now->now_ns;
	asked->allocated_bytes = now->allocated_bytes;
	asked->freed_bytes = freed_bytes(now);
	asked->bound_bytes = bound_bytes(now);
}
