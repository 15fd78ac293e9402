#include "pressure/pressure_internal.h"

#include "sys/format.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* ---- levels ---- */

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

/* Those of MT_RSS_LIMIT_MB: near it is warn, at it is critical. */
static struct mt_pressure_thresholds own_thresholds(const struct mt_config *cfg)
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
	const struct mt_pressure_thresholds at = own_thresholds(cfg);
	enum mt_pressure_level *level = &pressure->levels[MT_PRESSURE_RSS];

	*level = level_of(*level, now->own_bytes, mt_pressure_own_limit(cfg), &at);
	if (now->own_bytes < mt_pressure_share_of(mt_pressure_own_limit(cfg), at.warn))
		pressure->is_reported = false;
}

/* ---- all of them ---- */

/* seen_psi_known must still be that of the last sample. */
static void update_levels(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			  const struct mt_config *cfg)
{
	update_limit(pressure, now, cfg);
	update_events(pressure, now, cfg);
	update_stall(pressure, now);
	update_devices(pressure, now, cfg);
	update_own(pressure, now, cfg);
}

/* ---- the line in the log ---- */

/* A text to which pieces are appended: first the reasons, then what else is known. */
struct line {
	char *at;
	size_t left;
	const char *separator;
	bool reasons;
};

#define APPEND(line, ...)                                                                          \
	do {                                                                                       \
		size_t added_ = mt_format((line)->at, (line)->left, __VA_ARGS__);                  \
		(line)->at += added_;                                                              \
		(line)->left -= added_;                                                            \
	} while (0)

static const char *separator(struct line *line)
{
	const char *text = line->separator;

	line->separator = ", ";
	return text;
}

/* Returns whether a piece belongs here that is a reason or not. */
static bool is_next(const struct line *line, enum mt_pressure_level level)
{
	return line->reasons == (level != MT_PRESSURE_NONE);
}

/* Returns the share in thousandths: 873 is 87.3 %. */
static unsigned long long thousandths(uint64_t used, uint64_t limit)
{
	return limit ? (unsigned long long)((double)used / (double)limit * 1000) : 0;
}

static void add_signs(struct line *line, const struct mt_pressure_report *report)
{
	const enum mt_pressure_level *levels = report->pressure->levels;
	unsigned long long stall = report->pressure->stall_thousandths;

	if (line->reasons && levels[MT_PRESSURE_EVENTS])
		APPEND(line, "%sthe container has reached its limit", separator(line));
	if (line->reasons && levels[MT_PRESSURE_STALL])
		APPEND(line,
		       "%stasks of this %s waited %llu.%llu %% of the time for memory "
		       "(PSI)",
		       separator(line), report->sample->psi_is_own ? "cgroup" : "machine",
		       stall / 10, stall % 10);
}

static void add_limits(struct line *line, const struct mt_pressure_report *report)
{
	const struct mt_pressure_sample *sample = report->sample;
	const struct mt_pressure *pressure = report->pressure;
	unsigned long long share = thousandths(sample->used_bytes, sample->limit_bytes);

	if (sample->limit_bytes && is_next(line, pressure->levels[MT_PRESSURE_LIMIT]))
		APPEND(line, "%sRAM at %llu.%llu %% of %llu MB (%s)", separator(line), share / 10,
		       share % 10, MT_MB(sample->limit_bytes), report->limit_source);
	for (uint32_t i = 0; i < sample->devices_count; i++) {
		const struct mt_pressure_device *device = &sample->devices[i];

		share = thousandths(device->used_bytes, device->total_bytes);
		if (device->total_bytes && is_next(line, pressure->device_levels[i]))
			APPEND(line, "%sGPU %llu at %llu.%llu %%", separator(line),
			       (unsigned long long)device->ordinal, share / 10, share % 10);
	}
	share = thousandths(sample->own_bytes, report->own_limit_bytes);
	if (report->own_limit_bytes && is_next(line, pressure->levels[MT_PRESSURE_RSS]))
		APPEND(line, "%sthis process at %llu.%llu %% of MT_RSS_LIMIT_MB=%llu",
		       separator(line), share / 10, share % 10, MT_MB(report->own_limit_bytes));
}

static const char *action(const struct mt_pressure_plan *plan)
{
	if (plan->over)
		return "";
	if (plan->is_reduced)
		return plan->clean ? ": purge only, since other processes of WORLD_SIZE would wait"
				   : ": no cleanup, since other processes of WORLD_SIZE would wait";
	if (!plan->clean)
		return ": no cleanup until the pause after the last one ends";
	if (plan->cleanup == MT_LEVEL_HEAVY)
		return ": heavy cleanup";
	return plan->flush_gpu ? ": purge, release of idle device blocks" : ": purge";
}

void mt_pressure_format(const struct mt_pressure_report *report, char *out, size_t out_bytes)
{
	struct line line = {out, out_bytes, "", true};
	unsigned long long load = report->load_thousandths / 100;

	APPEND(&line, "%s", report->plan->over ? "memory pressure is over: " : "memory pressure: ");
	add_signs(&line, report);
	add_limits(&line, report);
	line.reasons = false;
	line.separator = *line.separator ? "; " : "";
	add_limits(&line, report);
	line.separator = *line.separator ? ", " : "";
	if (report->cpus_count)
		APPEND(&line, "%sload %llu.%llu on %llu CPUs", separator(&line), load / 10,
		       load % 10, (unsigned long long)report->cpus_count);
	APPEND(&line, "%s", action(report->plan));
}

/* ---- policy ---- */

/* time between samples below half of the limit */
#define FAR_NS    (5 * MT_NS_PER_S)
#define NEARER_NS MT_NS_PER_S /* from half of the limit on */
/* from the usage at which a level is left */
#define NEAR_NS          (250 * MT_NS_PER_MS)
#define LONGEST_PAUSE_NS (300 * MT_NS_PER_S)
/* a smaller difference between two samples is no growth */
#define GROWTH_BYTES MT_MIB

/* share of the machine's memory: a smaller process is not the one to warn of it */
#define OWN_SHARE 10

/* ---- the pause between cleanups ---- */

static enum mt_pressure_kind kind_of(enum mt_pressure_source source)
{
	return source == MT_PRESSURE_DEVICE ? MT_PRESSURE_GPU
	       : source == MT_PRESSURE_RSS  ? MT_PRESSURE_OWN
					    : MT_PRESSURE_HOST;
}

static uint64_t devices_used(const struct mt_pressure_sample *sample)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < sample->devices_count; i++)
		sum += sample->devices[i].used_bytes;
	return sum;
}

/* Returns the figure that a cleanup of this kind lowers. */
static uint64_t affected_bytes(enum mt_pressure_kind kind, const struct mt_pressure_sample *sample)
{
	return kind == MT_PRESSURE_GPU ? devices_used(sample) : sample->own_bytes;
}

/* Returns the bytes from which on a cleanup counts as effective. */
static uint64_t least_bytes(enum mt_pressure_kind kind, const struct mt_pressure_sample *sample,
			    const struct mt_config *cfg)
{
	uint64_t limit = kind == MT_PRESSURE_OWN ? mt_pressure_own_limit(cfg) : sample->limit_bytes;

	if (kind == MT_PRESSURE_GPU) {
		limit = 0;
		for (uint32_t i = 0; i < sample->devices_count; i++)
			limit = mt_max_u64(limit, sample->devices[i].total_bytes);
	}
	return mt_max_u64(limit / 100, MT_PRESSURE_MIN_BYTES);
}

static uint64_t pause_of(const struct mt_pressure_backoff *backoff, const struct mt_config *cfg)
{
	return backoff->pause_ns ? backoff->pause_ns : cfg->cooldown_ms * MT_NS_PER_MS;
}

static uint64_t double_pause(uint64_t pause_ns, const struct mt_config *cfg)
{
	uint64_t longest = cfg->cooldown_ms * MT_NS_PER_MS;

	return mt_min_u64(pause_ns * 2, mt_max_u64(longest, LONGEST_PAUSE_NS));
}

/* Lengthens the pause if the memory that the last cleanup returned is back. */
static void check_return(struct mt_pressure_backoff *backoff, enum mt_pressure_kind kind,
			 const struct mt_pressure_sample *now, const struct mt_config *cfg)
{
	if (!backoff->returned_bytes)
		return;
	if (affected_bytes(kind, now) >= backoff->after_bytes + backoff->returned_bytes / 2) {
		backoff->pause_ns = double_pause(backoff->earlier_pause_ns, cfg);
		backoff->returned_bytes = 0;
	} else if (now->now_ns - backoff->cleaned_ns >= cfg->cooldown_ms * MT_NS_PER_MS) {
		backoff->returned_bytes = 0;
	}
}

/* When the level ends, the next pressure causes a cleanup at once, except if the last cleanup
 * had no effect. */
static void note_level(struct mt_pressure_backoff *backoff, enum mt_pressure_level level,
		       uint64_t now_ns, const struct mt_config *cfg)
{
	uint64_t since = now_ns - backoff->cleaned_ns;

	backoff->level = level;
	if (level)
		return;
	if (!backoff->pause_ns || since >= pause_of(backoff, cfg))
		backoff->cleaned_level = MT_PRESSURE_NONE;
	if (since >= LONGEST_PAUSE_NS)
		backoff->pause_ns = 0;
}

static void update_backoffs(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			    const struct mt_config *cfg)
{
	enum mt_pressure_level levels[MT_PRESSURE_KIND_COUNT] = {MT_PRESSURE_NONE};

	for (int i = 0; i < MT_PRESSURE_SOURCE_COUNT; i++) {
		enum mt_pressure_kind kind = kind_of((enum mt_pressure_source)i);

		levels[kind] = mt_pressure_max_level(levels[kind], pressure->levels[i]);
	}
	for (int i = 0; i < MT_PRESSURE_KIND_COUNT; i++) {
		check_return(&pressure->backoffs[i], (enum mt_pressure_kind)i, now, cfg);
		note_level(&pressure->backoffs[i], levels[i], now->now_ns, cfg);
	}
}

/* ---- which kinds cause a cleanup ---- */

static bool is_due(const struct mt_pressure_backoff *backoff, const struct mt_pressure_sample *now,
		   const struct mt_config *cfg)
{
	return !backoff->cleaned_ns ||
	       now->now_ns - backoff->cleaned_ns >= pause_of(backoff, cfg) ||
	       backoff->level > backoff->cleaned_level;
}

static bool is_enabled(enum mt_pressure_kind kind, const struct mt_config *cfg)
{
	return kind == MT_PRESSURE_OWN ? cfg->rss_limit_mb != 0 : cfg->pressure != 0;
}

/* Adds one kind of pressure to the plan. */
static void add_kind(const struct mt_pressure *pressure, enum mt_pressure_kind kind,
		     struct mt_pressure_plan *plan)
{
	enum mt_pressure_level level = pressure->backoffs[kind].level;

	plan->kinds |= 1u << kind;
	plan->level = mt_pressure_max_level(plan->level, level);
	for (int i = 0; i < MT_PRESSURE_SOURCE_COUNT; i++)
		if (kind_of((enum mt_pressure_source)i) == kind && pressure->levels[i])
			plan->sources |= 1u << i;
	plan->clean = true;
	if (level == MT_PRESSURE_CRITICAL || kind == MT_PRESSURE_OWN)
		plan->cleanup = MT_LEVEL_HEAVY;
	plan->flush_gpu = plan->flush_gpu || kind == MT_PRESSURE_GPU;
}

/* Reduces the cleanup if several processes train together: one that collects, or waits for its
 * device, makes all others wait. */
static void reduce_for_ranks(struct mt_pressure_plan *plan)
{
	if (plan->cleanup == MT_LEVEL_PURGE && !plan->flush_gpu)
		return;
	plan->is_reduced = true;
	plan->cleanup = MT_LEVEL_PURGE;
	plan->flush_gpu = false;
	if (plan->kinds == 1u << MT_PRESSURE_GPU)
		plan->clean = false; /* purging the heap does not help a device */
}

static void keep_closest(struct mt_pressure_plan *plan, uint64_t used, uint64_t limit)
{
	if (limit &&
	    (!plan->limit_bytes ||
	     (double)used / (double)limit > (double)plan->used_bytes / (double)plan->limit_bytes)) {
		plan->used_bytes = used;
		plan->limit_bytes = limit;
	}
}

static void set_closest(struct mt_pressure_plan *plan, const struct mt_pressure_sample *now,
			const struct mt_config *cfg)
{
	if (plan->kinds & 1u << MT_PRESSURE_HOST)
		keep_closest(plan, now->used_bytes, now->limit_bytes);
	if (plan->kinds & 1u << MT_PRESSURE_OWN)
		keep_closest(plan, now->own_bytes, mt_pressure_own_limit(cfg));
	for (uint32_t i = 0; plan->kinds & 1u << MT_PRESSURE_GPU && i < now->devices_count; i++)
		keep_closest(plan, now->devices[i].used_bytes, now->devices[i].total_bytes);
}

static void select_kinds(const struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			 const struct mt_config *cfg, const struct mt_launch_env *env,
			 struct mt_pressure_plan *plan)
{
	for (int i = 0; i < MT_PRESSURE_KIND_COUNT; i++) {
		enum mt_pressure_kind kind = (enum mt_pressure_kind)i;

		if (pressure->backoffs[i].level && is_enabled(kind, cfg) &&
		    is_due(&pressure->backoffs[i], now, cfg))
			add_kind(pressure, kind, plan);
	}
	plan->reason =
		plan->kinds == 1u << MT_PRESSURE_OWN ? MT_REASON_RSS_LIMIT : MT_REASON_PRESSURE;
	if (env->world_size > 1)
		reduce_for_ranks(plan);
	set_closest(plan, now, cfg);
}

/* ---- when to sample again ---- */

/* Returns the time until the next sample. A sample near the limit is not needed for the growth of
 * this process: that requests one itself (pressure/reclaim.c, mt_pressure_is_due). */
static uint64_t pace_of(uint64_t used, uint64_t limit, const struct mt_pressure_thresholds *at)
{
	if (limit && used >= mt_pressure_share_of(limit, at->keep_warn))
		return NEAR_NS;
	if (limit && used >= mt_pressure_share_of(limit, MT_PRESSURE_HALF_PCT))
		return NEARER_NS;
	return FAR_NS;
}

/* Returns the growth until the next threshold, or the limit. */
static uint64_t growth_left(uint64_t used, uint64_t limit, const struct mt_pressure_thresholds *at)
{
	const uint64_t ends[] = {mt_pressure_share_of(limit, at->warn),
				 mt_pressure_share_of(limit, at->critical), limit};

	if (!limit)
		return UINT64_MAX;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends[i] > used)
			return ends[i] - used;
	return 0;
}

static void plan_next(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
		      const struct mt_config *cfg, struct mt_pressure_plan *plan)
{
	const struct mt_pressure_thresholds limits = mt_pressure_limit_thresholds(cfg);
	const struct mt_pressure_thresholds owns = own_thresholds(cfg);
	uint64_t pace = pace_of(now->own_bytes, mt_pressure_own_limit(cfg), &owns);
	uint64_t growth = growth_left(now->own_bytes, mt_pressure_own_limit(cfg), &owns);

	if (cfg->pressure) {
		pace = mt_min_u64(pace, pace_of(now->used_bytes, now->limit_bytes, &limits));
		growth =
			mt_min_u64(growth, growth_left(now->used_bytes, now->limit_bytes, &limits));
	}
	for (uint32_t i = 0; cfg->pressure && i < now->devices_count; i++)
		pace = mt_min_u64(pace, pace_of(now->devices[i].used_bytes,
						now->devices[i].total_bytes, &limits));
	pressure->growth_bytes = growth;
	pressure->next_ns = now->now_ns + pace;
	plan->next_ns = pressure->next_ns;
}

/* Only the host's limit counts: the kernel kills no process for MT_RSS_LIMIT_MB. Beyond a limit
 * (MT_LIMIT_MB) nothing can be saved. If the kernel does not tell the share of file pages, most
 * of the usage may be theirs. */
bool mt_pressure_limits_growth(const struct mt_pressure_sample *now, const struct mt_config *cfg,
			       uint64_t *out_growth_bytes)
{
	const struct mt_pressure_thresholds at = mt_pressure_limit_thresholds(cfg);
	bool is_vague =
		!now->exact &&
		now->used_bytes >= mt_pressure_share_of(now->limit_bytes, MT_PRESSURE_HALF_PCT);

	if (!cfg->pressure || now->limit_bytes <= now->used_bytes || is_vague)
		return false;
	*out_growth_bytes = growth_left(now->used_bytes, now->limit_bytes, &at) / 4;
	return true;
}

bool mt_pressure_is_due(const struct mt_pressure *pressure, uint64_t now_ns, uint64_t own_bytes)
{
	uint64_t grown = mt_sat_sub(own_bytes, pressure->seen_own_bytes);
	/* allows a sample together with another wake-up about this time */
	uint64_t slack = (pressure->next_ns - pressure->seen_ns) / 10;

	return !pressure->sampled || now_ns + slack >= pressure->next_ns ||
	       (grown >= GROWTH_BYTES && grown >= pressure->growth_bytes / 4);
}

uint64_t mt_pressure_wake_ns(const struct mt_pressure *pressure)
{
	return pressure->next_ns - pressure->seen_ns >= FAR_NS ? pressure->next_ns + FAR_NS
							       : pressure->next_ns;
}

/* ---- one sample ---- */

static bool is_own(enum mt_pressure_source source, const struct mt_pressure_sample *now)
{
	if (source == MT_PRESSURE_STALL)
		return now->psi_is_own;
	return source != MT_PRESSURE_LIMIT || !now->is_machines ||
	       now->own_bytes >= now->limit_bytes / OWN_SHARE;
}

static void note_overall(struct mt_pressure *pressure, const struct mt_pressure_sample *now,
			 struct mt_pressure_plan *plan)
{
	enum mt_pressure_level level = MT_PRESSURE_NONE, own = MT_PRESSURE_NONE;

	for (int i = 0; i < MT_PRESSURE_SOURCE_COUNT; i++) {
		level = mt_pressure_max_level(level, pressure->levels[i]);
		if (is_own((enum mt_pressure_source)i, now))
			own = mt_pressure_max_level(own, pressure->levels[i]);
	}
	plan->warns = own > pressure->own_level;
	pressure->own_level = own;
	if (level > pressure->level)
		plan->entered = level;
	plan->over = pressure->level && !level;
	pressure->level = level;
}

struct mt_pressure_plan mt_pressure_decide(struct mt_pressure *pressure,
					   const struct mt_pressure_sample *now,
					   const struct mt_config *cfg,
					   const struct mt_launch_env *env)
{
	struct mt_pressure_plan plan = {.cleanup = MT_LEVEL_PURGE};

	update_levels(pressure, now, cfg);
	note_overall(pressure, now, &plan);
	update_backoffs(pressure, now, cfg);
	select_kinds(pressure, now, cfg, env, &plan);
	plan_next(pressure, now, cfg, &plan);
	pressure->sampled = true;
	pressure->seen_ns = now->now_ns;
	pressure->seen_own_bytes = now->own_bytes;
	pressure->seen_psi_known = now->psi_known;
	return plan;
}

static void note_cleanup(struct mt_pressure_backoff *backoff, enum mt_pressure_kind kind,
			 const struct mt_pressure_outcome *outcome, const struct mt_config *cfg)
{
	uint64_t returned =
		kind == MT_PRESSURE_GPU ? outcome->gpu_returned_bytes : outcome->returned_bytes;

	if (!backoff->cleaned_ns ||
	    outcome->after.now_ns - backoff->cleaned_ns >= pause_of(backoff, cfg))
		backoff->cleaned_level = backoff->level;
	else
		backoff->cleaned_level =
			mt_pressure_max_level(backoff->cleaned_level, backoff->level);
	backoff->cleaned_ns = outcome->after.now_ns;
	backoff->after_bytes = affected_bytes(kind, &outcome->after);
	backoff->earlier_pause_ns = pause_of(backoff, cfg);
	if (returned < least_bytes(kind, &outcome->after, cfg)) {
		backoff->pause_ns = double_pause(backoff->earlier_pause_ns, cfg);
		backoff->returned_bytes = 0;
	} else {
		backoff->pause_ns = 0;
		backoff->returned_bytes = returned;
	}
}

bool mt_pressure_note_cleanup(struct mt_pressure *pressure, const struct mt_pressure_plan *plan,
			      const struct mt_pressure_outcome *outcome,
			      const struct mt_config *cfg)
{
	bool own = plan->kinds & 1u << MT_PRESSURE_OWN;

	for (int i = 0; i < MT_PRESSURE_KIND_COUNT; i++)
		if (plan->kinds & 1u << i)
			note_cleanup(&pressure->backoffs[i], (enum mt_pressure_kind)i, outcome,
				     cfg);
	pressure->seen_own_bytes = outcome->after.own_bytes;
	pressure->seen_ns = outcome->after.now_ns;
	pressure->next_ns = outcome->after.now_ns + NEAR_NS; /* to see its effect */
	if (!own || pressure->is_reported || outcome->after.own_bytes < mt_pressure_own_limit(cfg))
		return false;
	pressure->is_reported = true;
	return true;
}
