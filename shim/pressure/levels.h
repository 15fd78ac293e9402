/* pressure/levels.h -- the first half of pressure_policy.h: which level each source is at. Pure. Of
 * the state only what belongs to levels is touched. */
#ifndef MT_PRESSURE_LEVELS_H
#define MT_PRESSURE_LEVELS_H

#include "sys/os.h"
#include "pressure/state.h"

/* from here on a limit is looked at more often, and stall is taken for a lack of memory */
#define MT_PRESSURE_HALF_PCT 50u

/* Percentages of a limit from which on a level is entered and down to which it is kept. */
struct mt_pressure_thresholds {
	uint64_t warn, critical;
	uint64_t keep_warn, keep_critical;
};

struct mt_pressure_thresholds mt_pressure_limit_thresholds(const struct mt_config *cfg);

/* Of MT_RSS_LIMIT_MB: near it is warn, there is critical. */
struct mt_pressure_thresholds mt_pressure_own_thresholds(const struct mt_config *cfg);

static inline uint64_t mt_pressure_own_limit(const struct mt_config *cfg)
{
	return cfg->rss_limit_mb * MT_MIB;
}

static inline uint64_t mt_pressure_share_of(uint64_t bytes, uint64_t pct)
{
	return bytes / 100 * pct + bytes % 100 * pct / 100;
}

static inline enum mt_pressure_level mt_pressure_max_level(enum mt_pressure_level a,
							   enum mt_pressure_level b)
{
	return a > b ? a : b;
}

/* Sets pressure->levels and what they are made of. seen_used, seen_own, seen_some and
 * seen_psi_known are still of the last look. */
void mt_pressure_update_levels(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			       const struct mt_config *cfg);

#endif
