/* pressure/levels.h -- computes the pressure level of each source, for pressure/policy.c. Pure:
 * owns no state, and writes only the level fields of struct mt_pressure. Only the worker thread may
 * call. Takes no lock. */
#ifndef MT_PRESSURE_LEVELS_H
#define MT_PRESSURE_LEVELS_H

#include "sys/os.h"
#include "pressure/state.h"

/* from this usage on a limit is read more often, and stall counts as a lack of memory */
#define MT_PRESSURE_HALF_PCT 50u

/* Percentages of a limit: a level is entered at the first two, and kept down to the others. */
struct mt_pressure_thresholds {
	uint64_t warn, critical;
	uint64_t keep_warn, keep_critical;
};

/* Returns those of cgroup, machine and device limits. */
struct mt_pressure_thresholds mt_pressure_limit_thresholds(const struct mt_config *cfg);

/* Returns those of MT_RSS_LIMIT_MB: near it is warn, at it is critical. */
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

/* Sets pressure->levels and the state behind them. seen_psi_known must still be that of
 * the last sample. */
void mt_pressure_update_levels(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			       const struct mt_config *cfg);

#endif
