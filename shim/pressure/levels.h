/* pressure/levels.h -- computes the pressure level of each source, for pressure/policy.c. Pure:
 * owns no state, and writes only the level fields of struct mt_pressure. Only the worker thread may
 * call. Takes no lock. */
#ifndef MT_PRESSURE_LEVELS_H
#define MT_PRESSURE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"
#include "sys/os.h"

/* ---- a sample of memory pressure, and the state between samples: plain values ---- */

struct mt_pressure_device {
	uint64_t ordinal;
	uint64_t used_bytes;
	uint64_t total_bytes; /* 0 unknown */
};

/* One sample. */
struct mt_pressure_sample {
	uint64_t now_ns;
	/* of the closest limit of container or machine, see core/cgroup.h */
	uint64_t used_bytes;
	uint64_t limit_bytes; /* 0: unknown */
	bool exact;           /* false: used_bytes is an upper bound, which never raises a level */
	bool is_machines;     /* the limit is the machine's memory */
	bool events_known;
	uint64_t events_count; /* in total */
	bool psi_known;
	bool psi_is_own;    /* false: tasks of the whole machine */
	uint64_t some_us;   /* in total */
	uint64_t own_bytes; /* resident and swapped */
	uint32_t devices_count;
	struct mt_pressure_device devices[MT_DEVICES_COUNT];
};

/* a cleanup that returns less counts as one without effect */
#define MT_PRESSURE_MIN_BYTES (8 * MT_MIB)

enum mt_pressure_kind {
	MT_PRESSURE_HOST,
	MT_PRESSURE_GPU,
	MT_PRESSURE_OWN,
	MT_PRESSURE_KIND_COUNT
};

/* The pause between cleanups of one kind. */
struct mt_pressure_backoff {
	enum mt_pressure_level level;
	enum mt_pressure_level
		cleaned_level;     /* highest level with a cleanup since pressure began */
	uint64_t cleaned_ns;       /* 0: none yet */
	uint64_t pause_ns;         /* after it; 0: MT_COOLDOWN_MS */
	uint64_t earlier_pause_ns; /* before it: doubled when its pages come back */
	uint64_t returned_bytes;   /* returned and watched for a return; 0: no longer */
	uint64_t after_bytes;      /* of the figure that it lowers, right after it */
};

/* The state between samples; all 0 at first. */
struct mt_pressure {
	enum mt_pressure_level levels[MT_PRESSURE_SOURCE_COUNT];
	enum mt_pressure_level device_levels[MT_DEVICES_COUNT];
	struct mt_pressure_backoff backoffs[MT_PRESSURE_KIND_COUNT];
	enum mt_pressure_level level;     /* the highest of all */
	enum mt_pressure_level own_level; /* of those that concern this process */
	bool sampled;
	uint64_t seen_ns;
	uint64_t seen_own_bytes;
	/* growth until the next threshold; UINT64_MAX: no limit is known */
	uint64_t growth_bytes;
	uint64_t next_ns; /* when to sample again */
	bool seen_events_known;
	uint64_t seen_events_count;
	uint64_t events_ns; /* when they last grew; 0: never */
	bool seen_psi_known;
	uint64_t stall_ns; /* beginning of the span over which stall is measured */
	uint64_t stall_some_us;
	uint64_t stall_thousandths; /* of the last whole span */
	bool is_reported;           /* reported; until the own memory is below warn again */
};

/* ---- levels ---- */

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
