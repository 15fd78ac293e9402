/* pressure/policy.h -- decides what to do when memory runs short. Pure: owns no state but struct
 * mt_pressure; a sample and the settings give a plan. Only the worker thread may call. Takes no
 * lock.
 *
 * There are three kinds of pressure, each with its own level and pause:
 *   host    the closest limit (LIMIT), its events (EVENTS), stall (STALL); the highest level counts
 *   device  each device's usage of its memory (DEVICE)
 *   own     this process's usage of MT_RSS_LIMIT_MB (RSS): near it is warn, at it is critical
 * A level is entered at MT_WARN_PCT and MT_CRIT_PCT, and left MT_CLEAR_PCT lower. Warn causes a
 * purge (for a device also the release of idle blocks), critical a heavy cleanup. The own limit
 * always causes a heavy cleanup.
 *
 * A cleanup runs when a level is entered that has had none yet, and again after a pause. The pause
 * is MT_COOLDOWN_MS. It doubles, up to 5 minutes, after a cleanup that returned very little, or
 * whose pages were back before the cooldown ended. A cleanup with a lasting effect resets it.
 * Growth that cannot use the heap's free memory is handled by direct reclaim
 * (pressure/reclaim.h), without regard to the pause. */
#ifndef MT_PRESSURE_POLICY_H
#define MT_PRESSURE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
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

/* ---- the line in the log ---- */

/* Formats the log line about memory pressure. Pure: owns no state. Any thread may call. Takes no
 * lock, never allocates. */

struct mt_pressure_report {
	const struct mt_pressure_sample *sample;
	const struct mt_pressure *pressure; /* after mt_pressure_decide */
	const struct mt_pressure_plan *plan;
	const char *limit_source; /* of sample->limit_bytes */
	uint64_t own_limit_bytes; /* 0 none */
	uint64_t load_thousandths;
	uint64_t cpus_count; /* 0 unknown */
};

/* Formats, cut to out_bytes with a NUL, the reasons first: "memory pressure: tasks of this cgroup
 * waited 12.0 % of the time for memory (PSI); RAM at 64.6 % of 512 MB (/a/b/memory.max), load 1.9
 * on 2 CPUs: purge". */
void mt_pressure_format(const struct mt_pressure_report *report, char *out, size_t out_bytes);

struct mt_pressure_plan {
	bool clean;
	enum mt_level cleanup;        /* PURGE or HEAVY */
	bool flush_gpu;               /* release idle device blocks too */
	enum mt_reason reason;        /* PRESSURE or RSS_LIMIT */
	uint32_t kinds;               /* that cause it: bits 1 << enum mt_pressure_kind */
	uint32_t sources;             /* of those kinds: bits 1 << enum mt_pressure_source */
	enum mt_pressure_level level; /* the highest of those kinds */
	uint64_t used_bytes;          /* of the one closest to its limit; 0: unknown */
	uint64_t limit_bytes;
	/* a level above that of the last sample; NONE: none */
	enum mt_pressure_level entered;
	/* The level of what concerns this process is above that of the last sample. What tasks of
	 * others wait for, or have filled the machine with, does not concern a small process. */
	bool warns;
	bool over;        /* there was pressure at the last sample, and is none now */
	bool is_reduced;  /* reduced because of WORLD_SIZE */
	uint64_t next_ns; /* when to sample again, CLOCK_MONOTONIC */
};

/* The effect of a cleanup. */
struct mt_pressure_outcome {
	struct mt_pressure_sample after; /* own_bytes, devices and now_ns */
	uint64_t returned_bytes;
	uint64_t gpu_returned_bytes;
};

/* Returns whether a sample is due: by time, or since the process grew much since the last one.
 * own_bytes: resident and swapped now. */
bool mt_pressure_is_due(const struct mt_pressure *pressure, uint64_t now_ns, uint64_t own_bytes);

/* Returns when to wake the worker for a sample. Far from every limit this is late enough that a
 * tick comes first: an idle process is not woken for it. */
uint64_t mt_pressure_wake_ns(const struct mt_pressure *pressure);

/* Adds a sample and returns the plan. env: WORLD_SIZE. */
struct mt_pressure_plan mt_pressure_decide(struct mt_pressure *pressure,
					   const struct mt_pressure_sample *now,
					   const struct mt_config *cfg,
					   const struct mt_launch_env *env);

/* Sets *out_growth_bytes, after a sample: growth of the process after which another one is due, a
 * quarter of the way to the next threshold. Returns false if there is no limit for direct
 * reclaim. */
bool mt_pressure_limits_growth(const struct mt_pressure_sample *now, const struct mt_config *cfg,
			       uint64_t *out_growth_bytes);

/* Notes that the plan was carried out. Returns true if MT_RSS_LIMIT_MB is still reached and this
 * has not been reported yet. */
bool mt_pressure_note_cleanup(struct mt_pressure *pressure, const struct mt_pressure_plan *plan,
			      const struct mt_pressure_outcome *outcome,
			      const struct mt_config *cfg);

#endif
