#include "pressure/levels.h"

#include "sys/saturating.h"
#include "sys/os.h"

#define STALL_SPAN_NS MT_NS_PER_S /* a shorter span gives no reliable share */
/* thousandths of the time in which tasks wait; the level is left at half of it */
#define STALL_WARN     100u
#define STALL_CRITICAL 200u

/* A level that is kept down to 0 would never end: half of the entry threshold then. */
static uint64_t keep_threshold(uint64_t entered_pct, uint64_t clear_pct)
{
	uint64_t pct = mt_sat_sub(entered_pct, clear_pct);

	mt_assert(entered_pct <= 100);
	return pct ? pct : (entered_pct + 1) / 2;
}

struct mt_pressure_thresholds mt_pressure_limit_thresholds(const struct mt_config *cfg)
{
	return (struct mt_pressure_thresholds){cfg->warn_pct, cfg->crit_pct,
					       keep_threshold(cfg->warn_pct, cfg->clear_pct),
					       keep_threshold(cfg->crit_pct, cfg->clear_pct)};
}

struct mt_pressure_thresholds mt_pressure_own_thresholds(const struct mt_config *cfg)
{
	return (struct mt_pressure_thresholds){cfg->warn_pct, 100,
					       keep_threshold(cfg->warn_pct, cfg->clear_pct),
					       keep_threshold(100, cfg->clear_pct)};
}

static enum mt_pressure_level level_at(uint64_t value, uint64_t warn, uint64_t critical)
{
	return value >= critical ? MT_PRESSURE_CRITICAL
	       : value >= warn   ? MT_PRESSURE_WARN
				 : MT_PRESSURE_NONE;
}

/* Returns the level that the value enters, or the old level while it is kept. */
static enum mt_pressure_level with_hysteresis(enum mt_pressure_level old,
					      enum mt_pressure_level enters,
					      enum mt_pressure_level keeps)
{
	enum mt_pressure_level kept = keeps < old ? keeps : old;

	mt_assert(enters < MT_PRESSURE_LEVEL_COUNT && kept < MT_PRESSURE_LEVEL_COUNT);
	return mt_pressure_max_level(enters, kept);
}

static enum mt_pressure_level level_of(enum mt_pressure_level old, uint64_t used, uint64_t limit,
				       const struct mt_pressure_thresholds *at)
{
	enum mt_pressure_level enters;
	enum mt_pressure_level keeps;

	if (!limit)
		return MT_PRESSURE_NONE;
	enters = level_at(used, mt_pressure_share_of(limit, at->warn),
			  mt_pressure_share_of(limit, at->critical));
	keeps = level_at(used, mt_pressure_share_of(limit, at->keep_warn),
			 mt_pressure_share_of(limit, at->keep_critical));
	return with_hysteresis(old, enters, keeps);
}

/* Returns true if the limit is unknown. A container whose file cache fills its limit all the
 * time is not short of memory. */
static bool may_be_half_used(const struct mt_pressure_sample *now)
{
	return !now->limit_bytes ||
	       now->used_bytes >= mt_pressure_share_of(now->limit_bytes, MT_PRESSURE_HALF_PCT);
}

static void update_limit(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			 const struct mt_config *cfg)
{
	const struct mt_pressure_thresholds at = mt_pressure_limit_thresholds(cfg);
	enum mt_pressure_level *level = &pressure->levels[MT_PRESSURE_LIMIT];
	enum mt_pressure_level seen = level_of(*level, now->used_bytes, now->limit_bytes, &at);

	/* an upper bound never raises the level */
	if (now->exact || seen < *level)
		*level = seen;
}

/* An event tells no duration: it counts for one cooldown. */
static bool is_recent(uint64_t event_ns, uint64_t now_ns, const struct mt_config *cfg)
{
	return event_ns && now_ns - event_ns < cfg->cooldown_ms * MT_NS_PER_MS;
}

static void update_events(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			  const struct mt_config *cfg)
{
	if (now->events_known && pressure->seen_events_known &&
	    now->events_count > pressure->seen_events_count && may_be_half_used(now))
		pressure->events_ns = now->now_ns;
	pressure->seen_events_known = now->events_known;
	pressure->seen_events_count = now->events_count;
	pressure->levels[MT_PRESSURE_EVENTS] = is_recent(pressure->events_ns, now->now_ns, cfg)
						       ? MT_PRESSURE_CRITICAL
						       : MT_PRESSURE_NONE;
}

static void update_stall(struct mt_pressure *pressure, const struct mt_pressure_sample *now)
{
	enum mt_pressure_level *level = &pressure->levels[MT_PRESSURE_STALL];
	uint64_t span = now->now_ns - pressure->stall_ns;
	uint64_t share;

	if (!now->psi_known)
		*level = MT_PRESSURE_NONE;
	if (!now->psi_known || !pressure->seen_psi_known ||
	    now->some_us < pressure->stall_some_us) {
		pressure->stall_ns = now->now_ns;
		pressure->stall_some_us = now->some_us;
		pressure->stall_thousandths = 0;
		return;
	}
	if (span < STALL_SPAN_NS)
		return;
	share = (now->some_us - pressure->stall_some_us) * 1000 / (span / 1000);
	*level = with_hysteresis(*level, level_at(share, STALL_WARN, STALL_CRITICAL),
				 level_at(share, STALL_WARN / 2, STALL_CRITICAL / 2));
	if (*level == MT_PRESSURE_CRITICAL && !may_be_half_used(now))
		*level = MT_PRESSURE_WARN;
	pressure->stall_ns = now->now_ns;
	pressure->stall_some_us = now->some_us;
	pressure->stall_thousandths = share;
}

static void update_devices(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			   const struct mt_config *cfg)
{
	const struct mt_pressure_thresholds at = mt_pressure_limit_thresholds(cfg);
	enum mt_pressure_level highest = MT_PRESSURE_NONE;

	for (uint32_t i = 0; i < MT_DEVICES_COUNT; i++) {
		const struct mt_pressure_device *device = &now->devices[i];
		enum mt_pressure_level *level = &pressure->device_levels[i];

		*level = i < now->devices_count
				 ? level_of(*level, device->used_bytes, device->total_bytes, &at)
				 : MT_PRESSURE_NONE;
		highest = mt_pressure_max_level(highest, *level);
	}
	pressure->levels[MT_PRESSURE_DEVICE] = highest;
}

static void update_own(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
		       const struct mt_config *cfg)
{
	const struct mt_pressure_thresholds at = mt_pressure_own_thresholds(cfg);
	enum mt_pressure_level *level = &pressure->levels[MT_PRESSURE_RSS];

	*level = level_of(*level, now->own_bytes, mt_pressure_own_limit(cfg), &at);
	if (now->own_bytes < mt_pressure_share_of(mt_pressure_own_limit(cfg), at.warn))
		pressure->is_reported = false;
}

/* ---- all of them ---- */

void mt_pressure_update_levels(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			       const struct mt_config *cfg)
{
	update_limit(pressure, now, cfg);
	update_events(pressure, now, cfg);
	update_stall(pressure, now);
	update_devices(pressure, now, cfg);
	update_own(pressure, now, cfg);
}
