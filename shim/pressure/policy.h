/* pressure/policy.h -- what to do when memory runs short. Pure, as policy.h is: state, one look,
 * settings -> plan.
 *
 * Three kinds of pressure, each with a level and a cooldown of its own:
 *   host    the nearest limit (LIMIT), its events (EVENTS), stall (STALL), the watched file
 *     (WATCH); the highest counts
 *   device  each device against its memory (DEVICE)
 *   own     this process against MT_RSS_LIMIT_MB (RSS): warn is near it, critical is there
 * A level is entered at MT_WARN_PCT and MT_CRIT_PCT, and left MT_CLEAR_PCT lower. Warn is a purge
 * (on a device: our idle blocks too), critical a heavy cleanup, and so is everything for the own
 * limit.
 *
 * A cleanup is made when a level is entered that has not had one yet, and again once the pause is
 * over. The pause is MT_COOLDOWN_MS; it doubles, up to 5 minutes, with each cleanup that returned
 * next to nothing or whose pages were back before the cooldown was over, and one that returned
 * much, and for longer, resets it. Growth that has no use for the heap's free memory, and would
 * meet the limit beside it, is the business of direct reclaim (pressure/direct_reclaim.h), whatever
 * the pause says. */
#ifndef MT_PRESSURE_POLICY_H
#define MT_PRESSURE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "sys/os.h"
#include "core/stats_layout.h"
#include "pressure/state.h"

struct mt_pressure_plan {
	bool clean;
	enum mt_level cleanup;        /* PURGE or HEAVY */
	bool flush_gpu;               /* our idle device blocks too */
	enum mt_reason reason;        /* PRESSURE or RSS_LIMIT */
	uint32_t kinds;               /* that asked: bits 1 << enum mt_pressure_kind */
	uint32_t sources;             /* behind them: bits 1 << enum mt_pressure_source */
	enum mt_pressure_level level; /* the highest of those that asked */
	uint64_t used_bytes;          /* of the one that is nearest to its limit; 0 unknown */
	uint64_t limit_bytes;
	/* a level that was not there at the last look; NONE: none */
	enum mt_pressure_level entered;
	bool over;        /* there was pressure at the last look, and is none now */
	bool is_reduced;  /* less than it would be, because of WORLD_SIZE */
	uint64_t next_ns; /* when to look again, CLOCK_MONOTONIC */
};

/* What a cleanup has brought. */
struct mt_pressure_outcome {
	struct mt_pressure_sample after; /* own_bytes and devices, now_ns */
	uint64_t returned_bytes;
	uint64_t gpu_returned_bytes;
};

/* Whether it is time, or the process (own_bytes as now) has grown so much since the last look that
 * it should not wait. */
bool mt_pressure_is_due(const struct mt_pressure *pressure, uint64_t now_ns, uint64_t own_bytes);

/* Until when the worker may sleep if nothing else wakes it. Far from every limit that is so late
 * that the look comes along with a tick: an idle process is not woken for it. */
uint64_t mt_pressure_wake_ns(const struct mt_pressure *pressure);

/* One look. facts: WORLD_SIZE. */
struct mt_pressure_plan mt_pressure_decide(struct mt_pressure *pressure,
					   const struct mt_pressure_sample *now,
					   const struct mt_config *cfg,
					   const struct mt_launch_env *env);

/* After a look: by how much the process may grow until the next one, a quarter of the way to the
 * next threshold. False: no limit that direct reclaim could go by. */
bool mt_pressure_limits_growth(const struct mt_pressure_sample *now, const struct mt_config *cfg,
			       uint64_t *out_growth_bytes);

/* The plan has been carried out. True: MT_RSS_LIMIT_MB stays reached all the same, and this has not
 * been told yet. */
bool mt_pressure_note_cleanup(struct mt_pressure *pressure, const struct mt_pressure_plan *plan,
			      const struct mt_pressure_outcome *outcome,
			      const struct mt_config *cfg);

#endif
