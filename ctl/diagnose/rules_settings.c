/* ctl/diagnose/rules_settings.c -- settings that would suit a process, by its stats file
 * (figures, cleanups, samples, settings), its maps and its environment. A rule is silent if the
 * evidence is missing, and contradicts no record of docs/decisions. Thresholds that are not from
 * the process itself are from docs/settings.md, "How to choose". */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/metrics/series.h"
#include "core/config.h"

/* less is what the worker keeps by default */
#define WASTE_BYTES (64 * MT_MIB)
#define WASTE_SHARE 4 /* a quarter of RSS */
#define THREADS_MIN 4
#define AWAKE_MIN_S 20
#define PURGED_MIN  (256 * MT_MIB)
/* of the purged bytes were faulted in again: purges had no effect */
#define REFAULT_SHARE    0.7
#define REFAULT_COST_PCT 0.5
#define FAULT_BYTES      4096.0
#define PAUSES_MIN       3
/* docs/settings.md: MT_SETTLE_MS=3000 suits such pauses */
#define PAUSE_MIN_S      3.0
#define NEAR_PERCENT     75
#define ALLOCS_PER_CPU_S 1e6 /* a program that does little else */
#define SMALL_BYTES      (100 * MT_MIB)

/* by one collection: less is normal in every program */
#define FREED_BYTES    (8 * MT_MIB)
#define LIVE_DROPS_MIN 3
/* docs/settings.md: MT_ROUND=auto suits rounds of this length */
#define ROUND_MIN_S 30.0
#define USELESS_MIN 5         /* cleanups in a row */
#define USELESS_NS  20000000u /* each */

#define CACHE_BYTES (64 * MT_MIB)
#define CACHE_SHARE 0.40 /* of the reserved bytes, as in diagnose */
#define ALLOCS_MIN  1000
#define HITS_MIN    0.5

static uint64_t setting(const struct mt_facts *facts, const char *name)
{
	return mt_stats_file_number(&facts->last, name);
}

static bool setting_is(const struct mt_facts *facts, const char *name, const char *word)
{
	const char *text = mt_stats_file_setting(&facts->last, name);

	return text && strcmp(text, word) == 0;
}

double mt_diagnose_awake_s(const struct mt_facts *facts)
{
	return (double)mt_facts_now(facts)->uptime_ms / 1000;
}

/* Idle bytes as the worker counts them, as far as they are resident. */
static uint64_t idle_bytes(const struct mt_facts *facts)
{
	uint64_t idle = mt_facts_now(facts)->heap_idle_bytes;

	return mt_diagnose_knows_live(facts) ? mt_min_u64(idle, mt_facts_last(facts)->slack_bytes)
					     : idle;
}

/* Idle bytes that are worth a purge. */
static uint64_t purge_threshold(const struct mt_facts *facts)
{
	return mt_config_slack_bytes(mt_facts_now(facts)->rss_anon_bytes,
				     setting(facts, "slack_mb"), setting(facts, "slack_pct"));
}

uint64_t mt_facts_chosen_slack(const struct mt_facts *facts)
{
	const struct mt_stats_file *file = &facts->last;

	for (size_t i = 0; i < file->head.settings_count; i++) {
		const char *origin = file->settings[i].origin;

		if (strncmp(file->settings[i].name, "slack_", 6) == 0 && *origin &&
		    strcmp(origin, "default") != 0)
			/* before a trim of diagnose; as of a large process: one that was purged */
			return mt_config_slack_bytes(
				mt_max_u64(mt_facts_last(facts)->anon_bytes, WASTE_BYTES),
				setting(facts, "slack_mb"), setting(facts, "slack_pct"));
	}
	return 0;
}

/* Appends a note with settings that help: in lower case live ones ("idle_ms=2000"), which a command
 * changes at once, else as they stand in the environment of the next start. */
__attribute__((format(printf, 5, 6))) static void recommend(const struct mt_facts *facts,
							    struct mt_diagnosis *out,
							    const char *id, const char *settings,
							    const char *format, ...)
{
	char text[sizeof(((struct mt_finding *)NULL)->text)];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	mt_finding_set(mt_finding_note(out, MT_NOTE, id, NULL, "%s", text), facts, settings);
}

/* ---- the heap ---- */

static bool is_waste(uint64_t bytes, uint64_t rss)
{
	return bytes >= WASTE_BYTES && bytes >= rss / WASTE_SHARE;
}

/* Heap bytes that were resident and not live when RSS had its peak. */
static uint64_t unused_at_peak(const struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	uint64_t others =
		now->rss_file_bytes + now->rss_shmem_bytes + mt_facts_last(facts)->outside_bytes;

	return mt_sat_sub(now->rss_peak_bytes, now->heap_live_peak_bytes + others);
}

/* Not for programs with rounds: with fewer arenas their RSS at the ends of rounds was higher. */
void mt_rule_spread_over_arenas(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	const char *conf = mt_stats_file_setting(&facts->last, "malloc_conf");
	bool embedded = facts->last.head.mode == MT_MODE_JEMALLOC;
	bool glibc = !embedded && strcmp(facts->last.head.allocator, "glibc") == 0;
	uint64_t unused = unused_at_peak(facts);
	struct mt_finding *finding;

	if ((!embedded && !glibc) || now->threads_count < THREADS_MIN ||
	    now->heap_arenas_count < 3 || now->rounds_count || setting(facts, "arena_max") ||
	    !conf || strstr(conf, "narenas") || !mt_finding_may_join(conf) ||
	    !is_waste(unused, now->rss_peak_bytes))
		return;
	finding = mt_finding_note(
		out, MT_NOTE, "arenas", NULL,
		"%s threads have spread over %s arenas, each of which keeps free pages of its "
		"own: at the peak of %s in RSS %s were live, and %s of heap lay unused",
		mt_text_count(now->threads_count).text, mt_text_count(now->heap_arenas_count).text,
		mt_text_bytes(now->rss_peak_bytes).text,
		mt_text_bytes(now->heap_live_peak_bytes).text, mt_text_bytes(unused).text);
	if (glibc)
		mt_finding_start_with(finding, "MALLOC_ARENA_MAX=2");
	else
		mt_finding_start_with(finding, "MT_MALLOC_CONF=%.80s%s%s", conf, *conf ? "," : "",
				      now->cpus_count > 4 ? "narenas_ratio:0.5" : "narenas:1");
}

static const struct mt_stats_cleanup *last_cleanup(const struct mt_stats_file *file)
{
	for (uint64_t number = file->head.cleanups_count; number; number--) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);

		if (!record)
			return NULL;
		if (record->level != MT_LEVEL_PURGE && !record->merged &&
		    record->result != MT_NULL_RESULT)
			return record;
	}
	return NULL;
}

/* Free memory between live blocks, which malloc_trim cannot return. */
void mt_rule_left_between_blocks(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_head *head = &facts->last.head;
	const struct mt_stats_cleanup *record = last_cleanup(&facts->last);
	uint64_t outside = mt_facts_last(facts)->outside_bytes + mt_facts_last(facts)->arenas_bytes;
	uint64_t left =
		record ? mt_sat_sub(record->anon_after_bytes, record->live_after_bytes + outside)
		       : 0;

	if (facts->libc_free_known)
		left = mt_min_u64(left, facts->libc_free_bytes);
	if (head->mode != MT_MODE_SYSTEM || facts->has_pymalloc || !record ||
	    !is_waste(left, record->rss_after_bytes))
		return;
	recommend(
		facts, out, "allocator", "MT_ALLOCATOR=jemalloc",
		"after the last cleanup %s stayed resident where %s were live: %.20s cannot return "
		"what lies between live blocks, and the embedded jemalloc mixes lifetimes less",
		mt_text_bytes(record->anon_after_bytes).text,
		mt_text_bytes(record->live_after_bytes).text, head->allocator);
}

void mt_rule_kept_without_budget(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	uint64_t budget = setting(facts, "budget_pct"), idle = idle_bytes(facts);

	if (idle < purge_threshold(facts) || budget >= 5 || (budget && now->budget_balance_ns) ||
	    mt_diagnose_awake_s(facts) < AWAKE_MIN_S)
		return;
	recommend(
		facts, out, "budget", budget ? "budget_pct=5" : "budget_pct=3",
		budget ? "%s are reusable, and the budget of %s %% is spent"
		       : "%s are reusable, and with a budget of %s %% nothing is purged unless it "
			 "is asked for or memory is short",
		mt_text_bytes(idle).text, mt_text_count(budget).text);
}

/* Writes the setting under which such purges are not made, and what it keeps resident: a longer
 * wait for those of idle bytes, for those after a fall of live bytes a slack above what each
 * returned. False if the settings of now make no such purge. */
static bool find_patience(const struct mt_facts *facts, char *out, char *out_keeps,
			  size_t out_bytes)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	const uint64_t *made = facts->last.head.cleanups_by_reason;
	uint64_t a_purge = now->purged_bytes / now->purge_count,
		 slack_mb = a_purge / MT_MIB * 5 / 4 / 16 * 16 + 16;

	if (a_purge < mt_facts_chosen_slack(facts))
		return false;
	if (made[MT_REASON_LIVE_DROP] <= made[MT_REASON_IDLE]) {
		snprintf(out, out_bytes, "idle_ms=2000");
		snprintf(out_keeps, out_bytes, "%.30s a purge for 2 s",
			 mt_text_bytes(a_purge).text);
		return setting(facts, "idle_ms") < 2000;
	}
	snprintf(out, out_bytes, "slack_mb=%" PRIu64, slack_mb);
	snprintf(out_keeps, out_bytes, "up to %" PRIu64 " MB", slack_mb);
	return setting(facts, "slack_mb") < slack_mb;
}

/* A cost within the budget is what the user has agreed to: no setting is advised then. */
void mt_rule_refaulted(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	double back = (double)now->refault_count * FAULT_BYTES,
	       cost_pct = ((double)now->purge_cost_ns + (double)now->refault_cost_ns) /
			  (mt_diagnose_awake_s(facts) * 1e7);
	uint64_t budget_pct = setting(facts, "budget_pct");
	char patience[48], keeps[48];
	struct mt_finding *finding;
	bool is_paid;

	if (now->purged_bytes < PURGED_MIN || back < (double)now->purged_bytes * REFAULT_SHARE ||
	    !(cost_pct >= REFAULT_COST_PCT) || !now->purge_count ||
	    !find_patience(facts, patience, keeps, sizeof(patience)))
		return;
	is_paid = cost_pct <=
		  (double)budget_pct + MT_BUDGET_FIRST_MS / 10.0 / mt_diagnose_awake_s(facts);
	finding = mt_finding_note(
		out, MT_NOTE, "idle", NULL,
		"of %s that %s returned about %s were taken back, which cost %.1f %% of the time "
		"with the page faults, %s MT_BUDGET_PCT=%" PRIu64 "%s: %s would keep %s resident%s",
		mt_text_bytes(now->purged_bytes).text,
		mt_text_counted(now->purge_count, "purge", "purges").text,
		mt_text_bytes(mt_min_u64(mt_text_round_u64(back), now->purged_bytes)).text,
		cost_pct, is_paid ? "within" : "above", budget_pct,
		is_paid && cost_pct > (double)budget_pct
			? mt_text_format(" and its first %.1f s", MT_BUDGET_FIRST_MS / 1000.0).text
			: "",
		patience, keeps, is_paid ? " instead" : "");
	if (!is_paid)
		mt_finding_set(finding, facts, patience);
}

struct pauses {
	size_t count;
	double longest_s;
	uint64_t min_bytes;
};

static void end_pause(struct pauses *pauses, double seconds, double settle_s, uint64_t idle_bytes)
{
	if (seconds < PAUSE_MIN_S || seconds >= settle_s || idle_bytes < WASTE_BYTES)
		return;
	pauses->min_bytes =
		!pauses->count || idle_bytes < pauses->min_bytes ? idle_bytes : pauses->min_bytes;
	pauses->longest_s = seconds > pauses->longest_s ? seconds : pauses->longest_s;
	pauses->count++;
}

/* Stretches in which live bytes do not change, and which end before MT_SETTLE_MS is over. */
static struct pauses find_pauses(const struct mt_stats_file *file, double settle_s)
{
	const struct mt_stats_sample *begin = NULL, *before = NULL;
	struct pauses pauses = {0};

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *now = mt_stats_file_sample(file, i);
		bool rests;

		if (!now->time_ns || (before && now->time_ns <= before->time_ns))
			continue;
		rests = before && mt_sat_sub(now->live_bytes, before->live_bytes) < MT_MIB &&
			mt_sat_sub(before->live_bytes, now->live_bytes) < MT_MIB;
		if (!rests && begin)
			end_pause(&pauses, (double)(before->time_ns - begin->time_ns) / 1e9,
				  settle_s, before->idle_bytes);
		begin = !rests ? NULL : begin ? begin : before;
		before = now;
	}
	return pauses;
}

void mt_rule_short_pauses(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t settle_ms = setting(facts, "settle_ms");
	struct pauses pauses;

	if (settle_ms <= 3000 || mt_facts_now(facts)->rounds_count)
		return;
	pauses = find_pauses(&facts->last, (double)settle_ms / 1000);
	if (pauses.count < PAUSES_MIN)
		return;
	recommend(facts, out, "settle", "settle_ms=3000",
		  "%zu pauses of %.0f to %.1f s, at the end of each of which %s or more were "
		  "reusable: they are over before the %.0f s after which all is purged",
		  pauses.count, PAUSE_MIN_S, pauses.longest_s, mt_text_bytes(pauses.min_bytes).text,
		  (double)settle_ms / 1000);
}

/* Idle bytes below the threshold are not worth a purge, except near the limit. */
void mt_rule_idle_near_limit(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	double percent = mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes);
	uint64_t threshold = purge_threshold(facts), idle = idle_bytes(facts);

	if (percent < NEAR_PERCENT || idle < 16 * MT_MIB || idle >= threshold)
		return;
	recommend(facts, out, "slack", "slack_mb=8 slack_pct=0",
		  "%.0f %% of the limit of %s are used, and %s are reusable that count as too "
		  "little to purge (below %s)",
		  percent, mt_text_bytes(now->pressure_limit_bytes).text, mt_text_bytes(idle).text,
		  mt_text_bytes(threshold).text);
}

/* Small objects in malloc cost time. It is not worth it if purges return little. */
void mt_rule_computes_on_small_objects(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	double cpu_s = (double)now->cpu_ns / 1e9,
	       a_second = cpu_s > 0 ? (double)now->heap_alloc_count / cpu_s : 0;

	if (!facts->is_python || facts->last.head.python != MT_PYTHON_USES_MALLOC ||
	    cpu_s < AWAKE_MIN_S || a_second < ALLOCS_PER_CPU_S ||
	    now->rss_peak_bytes > SMALL_BYTES ||
	    now->purged_bytes > now->rss_peak_bytes / WASTE_SHARE)
		return;
	recommend(facts, out, "python-malloc", "MT_PYTHON_MALLOC=off",
		  "%.1f million allocations a second of CPU time in no more than %s, of which "
		  "purges have returned %s in %.0f s: Python's own allocator is probably faster",
		  a_second / 1e6, mt_text_bytes(now->rss_peak_bytes).text,
		  mt_text_bytes(now->purged_bytes).text, mt_diagnose_awake_s(facts));
}

/* ---- rounds ---- */

/* Counts the cleanups for a drop of live bytes. *out_gap_s: the median time between two. */
static size_t count_live_drops(const struct mt_stats_file *file, double *out_gap_s)
{
	double gaps[MT_CLEANUPS_COUNT];
	uint64_t before_ns = 0, last = file->head.cleanups_count;
	uint64_t back = last < MT_CLEANUPS_COUNT ? last : MT_CLEANUPS_COUNT;
	size_t count = 0;

	while (back-- > 0) { /* counts down: a forged `last` may be UINT64_MAX */
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, last - back);

		if (!record || record->reason != MT_REASON_LIVE_DROP)
			continue;
		if (before_ns && record->time_ns > before_ns)
			gaps[count++] = (double)(record->time_ns - before_ns) / 1e9;
		before_ns = record->time_ns;
	}
	if (!count)
		return before_ns != 0;
	qsort(gaps, count, sizeof(gaps[0]), mt_series_compare);
	*out_gap_s = gaps[count / 2];
	return count + 1;
}

void mt_rule_unmarked_rounds(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	double gap_s = 0;
	size_t live_drops = count_live_drops(&facts->last, &gap_s);

	if (!facts->is_python || !setting_is(facts, "gc_rounds", "0") ||
	    mt_facts_now(facts)->rounds_count || live_drops < LIVE_DROPS_MIN || gap_s < ROUND_MIN_S)
		return;
	recommend(facts, out, "rounds", "round=auto gc_rounds=auto",
		  "live memory fell and stayed down %zu times, %.0f s apart on the median, as at "
		  "the ends of rounds; Python's collector was never run there",
		  live_drops, gap_s);
}

/* Live bytes that requested collections have freed (by mtctl, a signal or pressure). */
static uint64_t freed_by_collections(const struct mt_stats_file *file, uint64_t *out_objects,
				     size_t *out_count)
{
	uint64_t bytes = 0;

	*out_objects = *out_count = 0;
	for (size_t i = 0; i < MT_CLEANUPS_COUNT; i++) {
		const struct mt_stats_cleanup *record = &file->cleanups[i];

		if (!record->number || record->merged || record->gc_state != MT_GC_DONE ||
		    !record->gc_collected_count)
			continue;
		bytes += mt_sat_sub(record->live_before_bytes, record->live_after_bytes);
		*out_objects += record->gc_collected_count;
		(*out_count)++;
	}
	return bytes;
}

void mt_rule_garbage_in_rounds(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	uint64_t objects, bytes;
	size_t count;

	if (!setting_is(facts, "gc_rounds", "0"))
		return;
	bytes = freed_by_collections(&facts->last, &objects, &count);
	if (!count || bytes / count < FREED_BYTES)
		return;
	recommend(facts, out, "rounds", "gc_rounds=1",
		  "%s freed %s in cycles and %s; %s marked, and none ended with one%s",
		  mt_text_counted(count, "collection that was asked for",
				  "collections that were asked for")
			  .text,
		  mt_text_counted(objects, "object", "objects").text, mt_text_bytes(bytes).text,
		  mt_text_counted(now->rounds_count, "round was", "rounds were").text,
		  now->rounds_count ? "" : " (mark them: mtctl round, or mt_round())");
}

/* The last cleanups at ends of rounds, back to the first that freed something. */
void mt_rule_useless_collections(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_file *file = &facts->last;
	uint64_t spent_ns = 0;
	size_t count = 0;

	if (setting_is(facts, "gc_rounds", "auto") || !setting(facts, "gc_rounds"))
		return;
	for (uint64_t number = file->head.cleanups_count; number; number--) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);

		if (!record)
			break;
		if (record->reason != MT_REASON_ROUND)
			continue;
		if (record->live_before_bytes >= record->live_after_bytes + MT_MIB ||
		    record->anon_before_bytes >= record->anon_after_bytes + MT_MIB)
			break;
		spent_ns += record->duration_ns;
		count++;
	}
	if (count < USELESS_MIN || spent_ns / count < USELESS_NS)
		return;
	recommend(facts, out, "rounds", "gc_rounds=auto",
		  "the last %zu cleanups at ends of rounds took %s each and freed less than 1 MB "
		  "each",
		  count, mt_text_ns(spent_ns / count).text);
}

/* ---- device memory ---- */

void mt_rule_torch_cache(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	uint64_t unused = mt_sat_sub(now->framework_reserved_bytes, now->framework_allocated_bytes);

	if (unused < CACHE_BYTES ||
	    (double)unused < (double)now->framework_reserved_bytes * CACHE_SHARE ||
	    setting(facts, "framework_decay_ms"))
		return;
	recommend(facts, out, "framework-cache", "framework_decay_ms=5000",
		  "when a cleanup last came to Python, PyTorch's cache held %s, of which tensors "
		  "used %s",
		  mt_text_bytes(now->framework_reserved_bytes).text,
		  mt_text_bytes(now->framework_allocated_bytes).text);
}

/* The program allocates again what the pool has released, and the device has room to keep it. */
void mt_rule_decays_too_soon(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	double hits = now->gpu_alloc_count
			      ? (double)now->gpu_hit_count / (double)now->gpu_alloc_count
			      : 1;
	uint64_t decay_ms = setting(facts, "cuda_decay_ms");

	if (now->gpu_alloc_count < ALLOCS_MIN || hits >= HITS_MIN || !decay_ms ||
	    decay_ms >= 30000 || now->gpu_decayed_bytes < 4 * now->gpu_reserved_peak_bytes ||
	    !now->gpu_reserved_peak_bytes || mt_diagnose_has_low_devices(now))
		return;
	recommend(facts, out, "cuda-decay", "cuda_decay_ms=30000",
		  "only %.0f %% of %s allocations came from the pool, and %s went back after %s "
		  "ms: several times the %s that it ever held",
		  100 * hits, mt_text_count(now->gpu_alloc_count).text,
		  mt_text_bytes(now->gpu_decayed_bytes).text, mt_text_count(decay_ms).text,
		  mt_text_bytes(now->gpu_reserved_peak_bytes).text);
}

/* Somebody chose MT_CUDA=account, and no framework keeps a cache of its own. */
void mt_rule_without_pool(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);

	if (!setting_is(facts, "cuda", "account") || facts->has_torch ||
	    now->gpu_num_device_alloc < ALLOCS_MIN || now->framework_reserved_bytes ||
	    mt_diagnose_has_low_devices(now))
		return;
	recommend(facts, out, "cuda", "MT_CUDA=auto",
		  "%s of %s allocations of device memory went to the driver, which may wait for "
		  "the device each time; no framework keeps a cache here",
		  mt_text_count(now->gpu_num_device_alloc).text,
		  mt_text_count(now->gpu_alloc_count).text);
}
