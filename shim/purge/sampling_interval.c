#include "purge/sampling_interval.h"

#include "sys/saturating.h"
#include "sys/os.h"

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

bool mt_sampling_interval_is_overdue(const struct mt_last_sample *last,
				     const struct mt_snapshot *now, bool is_counted)
{
	if (now->now_ns - last->at_ns < mt_max_u64(pause_ns(last), OVERDUE_NS))
		return false;
	return !is_counted || mt_sat_sub(freed_bytes(now), last->freed_bytes) >= OVERDUE_BYTES;
}

/* Returns whether nothing was allocated, freed or touched since the last sample. */
static bool is_unchanged(const struct mt_last_sample *last, const struct mt_snapshot *now)
{
	return now->allocated_bytes == last->allocated_bytes &&
	       freed_bytes(now) == last->freed_bytes && bound_bytes(now) == last->bound_bytes;
}

enum mt_sampling_interval mt_sampling_interval_decide(const struct mt_last_sample *last,
						      const struct mt_policy *policy,
						      const struct mt_snapshot *now,
						      const struct mt_config *cfg, bool is_counted)
{
	uint64_t threshold = mt_policy_threshold_bytes(now, cfg);
	bool is_low = last->dirty_bytes < threshold &&
		      bound_bytes(now) < last->bound_bytes + threshold / RISE_SHARE;
	bool is_valid = now->now_ns - last->at_ns < pause_ns(last) ||
			(is_counted && is_unchanged(last, now));

	/* dirty bytes worth a purge are watched until they are purged or reused */
	if (!mt_policy_needs_dirty(policy, now, cfg) && last->dirty_bytes < threshold &&
	    !mt_sampling_interval_is_overdue(last, now, is_counted))
		return MT_SAMPLING_INTERVAL_SKIP;
	return last->at_ns && is_low && is_valid ? MT_SAMPLING_INTERVAL_REUSE
						 : MT_SAMPLING_INTERVAL_READ;
}

void mt_sampling_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now)
{
	last->at_ns = now->now_ns;
	last->allocated_bytes = now->allocated_bytes;
	last->freed_bytes = freed_bytes(now);
	last->bound_bytes = bound_bytes(now);
}
