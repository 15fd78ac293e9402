/* ctl/diagnose/advise_heap.c -- rules on the heap: allocator, arenas, purging. Figures that a rule
 * goes by beside those of the process are from docs/settings.md, "How to choose". */
#include <stdio.h>
#include <string.h>

#include "ctl/diagnose/advise.h"

/* what the worker leaves alone by default is no waste */
#define WASTE_BYTES   (64 * MT_MIB)
#define WASTE_SHARE   4 /* a quarter of RSS */
#define THREADS_LEAST 4
#define LONG_ENOUGH_S 20
#define PURGED_LEAST  (256 * MT_MIB)
/* of what purges returned: then they were without effect */
#define TAKEN_BACK  0.7
#define FAULT_BYTES 4096.0
#define LULLS_LEAST 3
/* the lull for which docs/settings.md has MT_SETTLE_MS=3000 */
#define LULL_LEAST_S 3.0
#define NEAR_PERCENT 75
/* a second of CPU time: a program that does little else */
#define ALLOCS_PER_CPU 1e6
#define SMALL_BYTES    (100 * MT_MIB)

static bool is_waste(uint64_t bytes, uint64_t rss)
{
	return bytes >= WASTE_BYTES && bytes >= rss / WASTE_SHARE;
}

/* Anonymous memory at the peak that the program did not hold, nor what lies outside of the heap. */
static uint64_t unused_at_peak(const struct mt_advise_facts *facts)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	uint64_t others =
		now->rss_file_bytes + now->rss_shmem_bytes + facts->look.samples[0].outside_bytes;

	return mt_sat_sub(now->rss_peak_bytes, now->heap_live_peak_bytes + others);
}

/* Rounds ended worse with fewer arenas, so that a program that has rounds is left as it is. */
static bool has_spread_over_arenas(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	const char *conf = mt_stats_file_setting(&facts->look.last, "malloc_conf");
	bool embedded = strcmp(facts->look.last.head.mode, "jemalloc") == 0;
	bool glibc = !embedded && strcmp(facts->look.last.head.allocator, "glibc") == 0;
	uint64_t unused = unused_at_peak(facts);

	if ((!embedded && !glibc) || now->threads_count < THREADS_LEAST ||
	    now->heap_arenas_count < 3 || now->rounds_count ||
	    mt_advise_setting(facts, "arena_max") || !conf || strstr(conf, "narenas") ||
	    !mt_advise_may_join(conf) || !is_waste(unused, now->rss_peak_bytes))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%s threads have spread over %s arenas, each of which keeps free pages of its "
		 "own: at the peak of %s in "
		 "RSS %s were live, and %s of heap lay unused",
		 mt_text_count(now->threads_count).text, mt_text_count(now->heap_arenas_count).text,
		 mt_text_bytes(now->rss_peak_bytes).text,
		 mt_text_bytes(now->heap_live_peak_bytes).text, mt_text_bytes(unused).text);
	if (glibc)
		snprintf(out->environment, sizeof(out->environment), "MALLOC_ARENA_MAX=2");
	else
		snprintf(out->environment, sizeof(out->environment), "MT_MALLOC_CONF=%.80s%s%s",
			 conf, *conf ? "," : "",
			 now->cpus_count > 4 ? "narenas_ratio:0.5" : "narenas:1");
	return true;
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

/* What malloc_trim leaves between live blocks. */
static bool is_pinned_by_the_allocator(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_head *head = &facts->look.last.head;
	const struct mt_stats_cleanup *record = last_cleanup(&facts->look.last);
	uint64_t outside =
		facts->look.samples[0].outside_bytes + facts->look.samples[0].arenas_bytes;
	uint64_t left =
		record ? mt_sat_sub(record->anon_after_bytes, record->live_after_bytes + outside)
		       : 0;

	if (strcmp(head->mode, "system") != 0 || facts->look.has_pymalloc || !record ||
	    !is_waste(left, record->rss_after_bytes))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "after the last cleanup %s stayed resident where %s were live: %.20s cannot "
		 "return what lies between live "
		 "blocks, and the embedded jemalloc mixes lifetimes less",
		 mt_text_bytes(record->anon_after_bytes).text,
		 mt_text_bytes(record->live_after_bytes).text, head->allocator);
	snprintf(out->environment, sizeof(out->environment), "MT_ALLOCATOR=jemalloc");
	return true;
}

static bool is_kept_for_lack_of_budget(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	uint64_t budget = mt_advise_setting(facts, "budget_pct");

	if (now->heap_idle_bytes < mt_advise_gate(facts) || budget >= 5 ||
	    (budget && now->budget_balance_ns) || mt_advise_seconds(facts) < LONG_ENOUGH_S)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 budget ? "%s lie idle, and the budget of %s %% is spent"
			: "%s lie idle, and with a budget of %s %% nothing is purged unless it is "
			  "asked for or memory is short",
		 mt_text_bytes(now->heap_idle_bytes).text, mt_text_count(budget).text);
	mt_advise_set(facts, out, "budget_pct", budget ? "5" : "3");
	return true;
}

static bool is_purged_in_vain(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	double back = (double)now->refault_count * FAULT_BYTES,
	       cost_ns = (double)now->purge_cost_ns + (double)now->refault_cost_ns;

	if (now->purged_bytes < PURGED_LEAST || back < (double)now->purged_bytes * TAKEN_BACK ||
	    cost_ns < mt_advise_seconds(facts) * 1e9 / 200 ||
	    mt_advise_setting(facts, "idle_ms") >= 2000)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "of %s that %s returned about %s were taken back, which cost %s in all: what is "
		 "reused so soon is "
		 "better left alone",
		 mt_text_bytes(now->purged_bytes).text,
		 mt_text_counted(now->purge_count, "purge", "purges").text,
		 mt_text_bytes(mt_diagnose_min(mt_text_round_u64(back), now->purged_bytes)).text,
		 mt_text_ns(mt_text_round_u64(cost_ns)).text);
	mt_advise_set(facts, out, "idle_ms", "2000");
	return true;
}

struct lulls {
	size_t count;
	double longest_s;
	uint64_t least_bytes;
};

static void end_lull(struct lulls *lulls, double seconds, double most_s, uint64_t idle_bytes)
{
	if (seconds < LULL_LEAST_S || seconds >= most_s || idle_bytes < WASTE_BYTES)
		return;
	lulls->least_bytes =
		!lulls->count || idle_bytes < lulls->least_bytes ? idle_bytes : lulls->least_bytes;
	lulls->longest_s = seconds > lulls->longest_s ? seconds : lulls->longest_s;
	lulls->count++;
}

/* Stretches in which live memory does not move, and which end before MT_SETTLE_MS does. */
static struct lulls find_lulls(const struct mt_stats_file *file, double most_s)
{
	const struct mt_stats_sample *begin = NULL, *before = NULL;
	struct lulls lulls = {0};

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *now =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];
		bool rests;

		if (!now->time_ns || (before && now->time_ns <= before->time_ns))
			continue;
		rests = before && mt_sat_sub(now->live_bytes, before->live_bytes) < MT_MIB &&
			mt_sat_sub(before->live_bytes, now->live_bytes) < MT_MIB;
		if (!rests && begin)
			end_lull(&lulls, (double)(before->time_ns - begin->time_ns) / 1e9, most_s,
				 before->idle_bytes);
		begin = !rests ? NULL : begin ? begin : before;
		before = now;
	}
	return lulls;
}

static bool has_short_lulls(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	uint64_t settle_ms = mt_advise_setting(facts, "settle_ms");
	struct lulls lulls;

	if (settle_ms <= 3000 || mt_advise_figures(facts)->rounds_count)
		return false;
	lulls = find_lulls(&facts->look.last, (double)settle_ms / 1000);
	if (lulls.count < LULLS_LEAST)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%zu lulls of %.0f to %.1f s, at the end of each of which %s or more lay idle: "
		 "they are over before the "
		 "%.0f s after which all is purged",
		 lulls.count, LULL_LEAST_S, lulls.longest_s, mt_text_bytes(lulls.least_bytes).text,
		 (double)settle_ms / 1000);
	mt_advise_set(facts, out, "settle_ms", "3000");
	return true;
}

/* Idle bytes below the gate: not worth a purge, unless the limit is near. */
static bool is_idle_near_the_limit(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	double percent = mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes);
	uint64_t gate = mt_advise_gate(facts);

	if (percent < NEAR_PERCENT || now->heap_idle_bytes < 16 * MT_MIB ||
	    now->heap_idle_bytes >= gate)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%.0f %% of the limit of %s are used, and %s lie idle that count as too little to "
		 "purge (below %s)",
		 percent, mt_text_bytes(now->pressure_limit_bytes).text,
		 mt_text_bytes(now->heap_idle_bytes).text, mt_text_bytes(gate).text);
	snprintf(out->environment, sizeof(out->environment), "MT_SLACK_MB=8 MT_SLACK_PCT=0");
	snprintf(out->command, sizeof(out->command),
		 "mtctl set %d slack_mb=8; mtctl set %d slack_pct=0", (int)facts->look.process.pid,
		 (int)facts->look.process.pid);
	return true;
}

static bool keeps_python_arenas(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_diagnose_sample *sample = &facts->look.samples[0];
	uint64_t unused = mt_sat_sub(sample->arenas_bytes, sample->arenas_live_bytes);

	if (!facts->look.has_pymalloc || !facts->look.arenas_known || !facts->look.samples_count ||
	    !is_waste(unused, sample->rss_bytes))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%s lie free in Python's own arenas, %s of which are in use: in malloc small "
		 "objects can be given back",
		 mt_text_bytes(unused).text, mt_text_bytes(sample->arenas_live_bytes).text);
	snprintf(out->environment, sizeof(out->environment), "MT_PYTHON_MALLOC=on");
	return true;
}

/* Small objects in malloc cost time, and give nothing back where there is nothing. */
static bool computes_on_small_objects(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	double cpu_s = (double)now->cpu_ns / 1e9,
	       a_second = cpu_s > 0 ? (double)now->heap_alloc_count / cpu_s : 0;

	if (!facts->look.is_python || !strstr(facts->look.last.head.python, "is answered") ||
	    cpu_s < LONG_ENOUGH_S || a_second < ALLOCS_PER_CPU ||
	    now->rss_peak_bytes > SMALL_BYTES ||
	    now->purged_bytes > now->rss_peak_bytes / WASTE_SHARE)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%.1f million allocations a second of CPU time in no more than %s, of which "
		 "purges have returned %s in "
		 "%.0f s: Python's own allocator is probably faster",
		 a_second / 1e6, mt_text_bytes(now->rss_peak_bytes).text,
		 mt_text_bytes(now->purged_bytes).text, mt_advise_seconds(facts));
	snprintf(out->environment, sizeof(out->environment), "MT_PYTHON_MALLOC=off");
	return true;
}

const struct mt_advise_rule mt_advise_heap_rules[] = {
	{"allocator", is_pinned_by_the_allocator},
	{"arenas", has_spread_over_arenas},
	{"python-malloc", keeps_python_arenas},
	{"python-malloc", computes_on_small_objects},
	{"budget", is_kept_for_lack_of_budget},
	{"idle", is_purged_in_vain},
	{"settle", has_short_lulls},
	{"slack", is_idle_near_the_limit},
	{NULL, NULL},
};
