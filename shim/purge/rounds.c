#include "purge/purge.h"

#include <stdbool.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/thread.h"
#include "purge/policy.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* Rounds of a federation take minutes; a program that marks them has ended one in this time. */
#define MISSING_NS (10 * 60 * MT_NS_PER_S)

static _Atomic uint64_t ended; /* counter, no ordering */

uint64_t mt_rounds_end(void)
{
	return mt_add_relaxed(&ended, 1) + 1;
}

uint64_t mt_rounds_count(void)
{
	return mt_load_relaxed(&ended);
}

bool mt_rounds_due(uint64_t round, uint64_t gc_step, const struct mt_config *cfg,
		   enum mt_level *out_level)
{
	bool heavy = cfg->heavy_rounds && round % cfg->heavy_rounds == 0;
	bool light = gc_step && round % gc_step == 0;

	if (!heavy && !light)
		return false;
	*out_level = heavy || cfg->cuda_empty_cache ? MT_LEVEL_HEAVY : MT_LEVEL_LIGHT;
	return true;
}

bool mt_rounds_are_missing(const struct mt_config *cfg, uint64_t count, uint64_t uptime_ns)
{
	bool waits = cfg->preset && (cfg->gc_rounds || cfg->heavy_rounds);

	return waits && !count && uptime_ns >= MISSING_NS;
}

/* ---- rounds of MT_GC_ROUNDS=auto ---- */

#define FIRST_WINDOW 4
#define FLAT_BYTES   (8 * MT_MIB)
#define FLAT_SHARE   50 /* 1/50: 2 % */

static const uint64_t steps[] = {1, 2, 5};
#define LAST_STEP (sizeof(steps) / sizeof(steps[0]) - 1)

void mt_rounds_auto_start(struct mt_adaptive_rounds *adaptive)
{
	memset(adaptive, 0, sizeof(*adaptive));
	adaptive->window = FIRST_WINDOW;
}

uint64_t mt_rounds_auto_step(const struct mt_adaptive_rounds *adaptive)
{
	return steps[adaptive->step_index];
}

static bool is_close_to(uint64_t low, uint64_t high)
{
	return high - low <= mt_max_u64(low / FLAT_SHARE, FLAT_BYTES);
}

/* Compares the last `window` round ends. *out_low: the lowest of them. */
static bool is_flat(const struct mt_adaptive_rounds *adaptive, uint64_t *out_low)
{
	uint64_t low = UINT64_MAX;
	uint64_t high = 0;

	mt_assert(adaptive->window > 0 && adaptive->window <= MT_ADAPTIVE_ROUNDS_LONGEST);
	mt_assert(adaptive->count >= adaptive->window);
	for (uint64_t i = adaptive->count - adaptive->window; i < adaptive->count; i++) {
		uint64_t bytes = adaptive->ends[i % MT_ADAPTIVE_ROUNDS_LONGEST];

		low = mt_min_u64(low, bytes);
		high = mt_max_u64(high, bytes);
	}
	*out_low = low;
	return is_close_to(low, high);
}

static void set_step(struct mt_adaptive_rounds *adaptive, uint32_t step_index)
{
	mt_assert(step_index <= LAST_STEP);
	adaptive->step_index = step_index;
	adaptive->step_rounds = 0;
}

static void raise_step(struct mt_adaptive_rounds *adaptive)
{
	uint64_t low;

	if (adaptive->step_rounds < adaptive->window || !is_flat(adaptive, &low))
		return;
	if (adaptive->step_index == 0)
		adaptive->base_bytes = low;
	set_step(adaptive, adaptive->step_index + 1);
}

void mt_rounds_auto_add(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure)
{
	adaptive->ends[adaptive->count++ % MT_ADAPTIVE_ROUNDS_LONGEST] = bytes;
	if (pressure) {
		set_step(adaptive, 0);
		return;
	}
	adaptive->step_rounds++;
	if (adaptive->step_index > 0 && bytes < adaptive->base_bytes)
		adaptive->base_bytes = bytes;
	if (adaptive->step_index > 0 && !is_close_to(adaptive->base_bytes, bytes)) {
		set_step(adaptive, 0);
		if (adaptive->window < MT_ADAPTIVE_ROUNDS_LONGEST)
			adaptive->window *= 2;
	} else if (adaptive->step_index < LAST_STEP) {
		raise_step(adaptive);
	} else if (adaptive->step_rounds >= MT_ADAPTIVE_ROUNDS_LONGEST) {
		adaptive->window = FIRST_WINDOW;
		adaptive->step_rounds = MT_ADAPTIVE_ROUNDS_LONGEST;
	}
}

/* ---- round end ---- */

/* due rounds that are published one by one */
#define DUE_MAX 64u

static _Atomic uint64_t last_handled;      /* number of a round; no ordering */
static uint64_t timer_ns;                  /* when the next timer round ends; 0: no timer */
static struct mt_adaptive_rounds adaptive; /* for MT_GC_ROUNDS=auto */

/* Merges the due rounds into the last one, at the highest level that one of them requests. */
static void run_due(const struct mt_trim_request *due, const uint64_t *merged_counts,
		    uint64_t count)
{
	uint64_t first = count > DUE_MAX ? count - DUE_MAX : 0;
	const struct mt_trim_request *last = &due[(count - 1) % DUE_MAX];
	enum mt_level level = merged_counts[MT_LEVEL_HEAVY] ? MT_LEVEL_HEAVY : last->level;

	mt_cleanup_count_merged(merged_counts);
	for (uint64_t i = first; i + 1 < count; i++) {
		const struct mt_trim_request *merged = &due[i % DUE_MAX];

		mt_cleanup_note_merged(merged);
		level = merged->level > level ? merged->level : level;
	}
	mt_cleanup_run_requested(&(struct mt_trim_request){
		.reason = MT_REASON_ROUND, .level = level, .round = last->round});
}

/* Gives a round end to MT_GC_ROUNDS=auto. Rounds that end in the second after a cleanup count once:
 * they are handled together. */
static void note_adaptive(uint64_t (*in_use_bytes)(void))
{
	uint64_t bytes = in_use_bytes();
	struct mt_stats_snapshot *figures = mt_publish_lock();

	mt_rounds_auto_add(&adaptive, bytes, figures->pressure_level > 0);
	mt_publish_unlock();
	mt_log(MT_LOG_DEBUG, "round end: %llu kB in use, a light cleanup every %llu rounds",
	       (unsigned long long)(bytes / 1024),
	       (unsigned long long)mt_rounds_auto_step(&adaptive));
}

/* Returns the rounds between two light cleanups, 0: never; as set, or as MT_GC_ROUNDS=auto
 * decides. */
static uint64_t gc_step(const struct mt_config *cfg, bool rounds_ended,
			uint64_t (*in_use_bytes)(void))
{
	bool is_adaptive = cfg->gc_rounds == MT_COUNT_AUTO;

	if (!is_adaptive || !adaptive.window)
		mt_rounds_auto_start(&adaptive);
	if (is_adaptive && rounds_ended)
		note_adaptive(in_use_bytes);
	mt_publish_lock()->gc_rounds_step = is_adaptive ? mt_rounds_auto_step(&adaptive) : 0;
	mt_publish_unlock();
	return is_adaptive ? mt_rounds_auto_step(&adaptive) : cfg->gc_rounds;
}

void mt_rounds_note_handled(uint64_t round)
{
	if (round > mt_load_relaxed(&last_handled))
		mt_store_relaxed(&last_handled, round);
}

/* Publishes every due round, up to DUE_MAX; rounds that end together are merged into the last.
 * Clears the bit before it counts the rounds: a round that ends later sets it again. */
void mt_round_end_run_cleanup(uint64_t (*in_use_bytes)(void))
{
	mt_assert(mt_thread_is_ours());
	const struct mt_config *cfg = mt_config();
	/* the last ones, which are published */
	struct mt_trim_request due[DUE_MAX] = {{0}};
	/* by level, how many came before them */
	uint64_t merged_counts[MT_LEVEL_COUNT] = {0};
	uint64_t count = 0;
	uint64_t round = mt_load_relaxed(&last_handled);
	uint64_t last;
	uint64_t step;

	if (!mt_cleanup_requested_may_run(mt_os_now_ns()))
		return;
	mt_control_clear_bits(MT_CONTROL_API);
	last = mt_rounds_count();
	step = gc_step(cfg, round < last, in_use_bytes);
	while (round < last) {
		struct mt_trim_request *slot = &due[count % DUE_MAX];
		enum mt_level level;

		if (!mt_rounds_due(++round, step, cfg, &level))
			continue;
		if (count++ >= DUE_MAX)
			merged_counts[slot->level]++;
		*slot = (struct mt_trim_request){
			.reason = MT_REASON_ROUND, .level = level, .round = round};
	}
	mt_rounds_note_handled(round);
	if (count)
		run_due(due, merged_counts, count);
}

void mt_round_end_check_timer(uint64_t now_ns)
{
	const struct mt_config *cfg = mt_config();
	uint64_t span = mt_round_seconds_of(cfg->round) * MT_NS_PER_S;

	mt_assert(mt_thread_is_ours());
	if (mt_round_mode_of(cfg->round) != MT_ROUND_TIMER) {
		timer_ns = 0;
		return;
	}
	if (!timer_ns || timer_ns > now_ns + span) {
		timer_ns = now_ns + span;
	} else if (now_ns >= timer_ns) {
		timer_ns = now_ns + span;
		(void)mt_rounds_end();
	}
}

void mt_round_end_handle_signal(void)
{
	const struct mt_trim_request request = {.reason = MT_REASON_SIGNAL,
						.level = MT_LEVEL_HEAVY};

	mt_assert(mt_thread_is_ours());
	if (mt_round_mode_of(mt_config()->round) == MT_ROUND_SIGNAL)
		(void)mt_rounds_end();
	else
		mt_cleanup_run_requested(&request);
}

uint64_t mt_round_end_next_ns(void)
{
	uint64_t next_ns = timer_ns ? timer_ns : UINT64_MAX;
	bool waits = (mt_control_pending_bits() & (MT_CONTROL_SIGNAL | MT_CONTROL_API)) ||
		     mt_load_relaxed(&last_handled) < mt_rounds_count();

	if (waits && mt_cleanup_requested_next_ns() < next_ns)
		next_ns = mt_cleanup_requested_next_ns();
	return next_ns;
}

void mt_rounds_fork_child(void)
{
	mt_store_relaxed(&ended, 0);
	mt_store_relaxed(&last_handled, 0);
	timer_ns = 0;
	mt_rounds_auto_start(&adaptive);
}
