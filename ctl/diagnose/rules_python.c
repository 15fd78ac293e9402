/* ctl/diagnose/rules_python.c -- findings of Python: garbage in cycles, a disabled collector,
 * arenas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

/* freed by one collection: less is normal in every program */
#define CYCLES_BYTES (8 * MT_MIB)
#define CYCLES_SHARE 0.05 /* of what was live */
/* the largest object in an arena; larger ones are malloc's */
#define OBJECT_BYTES 512u
/* a collected object with what it refers to, in arenas */
#define ARENA_OBJECT_BYTES 1024
#define ARENAS_BYTES       (48 * MT_MIB)
#define ARENAS_SHARE       0.30 /* of the anonymous memory */

/* Bytes that the collection has freed. The program allocates while it runs, so that only a fall
 * below the minimum of the last quarter of the samples counts. Small objects in arenas are not in
 * the heap: there the fall of anonymous memory counts, up to 1 kB for each object. */
static uint64_t freed_by_gc(const struct mt_facts *facts)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;
	uint64_t live = mt_sat_sub(record->live_before_bytes, record->live_after_bytes);
	uint64_t anon = mt_sat_sub(record->anon_before_bytes, record->anon_after_bytes);
	uint64_t live_least = mt_diagnose_minimum(facts, 4, offsetof(struct mt_sample, live_bytes));
	uint64_t anon_least = mt_diagnose_minimum(facts, 4, offsetof(struct mt_sample, anon_bytes));

	live = mt_min_u64(live, mt_sat_sub(live_least, record->live_after_bytes));
	anon = mt_min_u64(mt_min_u64(anon, mt_sat_sub(anon_least, record->anon_after_bytes)),
			  record->gc_collected_count * ARENA_OBJECT_BYTES);
	return facts->has_pymalloc && anon > live ? anon : live;
}

static void show_collection(const struct mt_facts *facts, uint64_t fell, struct mt_finding *finding)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;

	mt_finding_bytes(finding, "freed by one collection", "gc_freed_bytes", fell);
	mt_finding_show(finding, "objects", "gc_collected_count",
			(double)record->gc_collected_count, "%s in %s",
			mt_text_count(record->gc_collected_count).text,
			mt_text_ns(record->gc_ns).text);
	mt_finding_bytes(finding, "live heap before it", "live_before_bytes",
			 record->live_before_bytes);
	mt_finding_bytes(finding, "live heap after it", "live_after_bytes",
			 record->live_after_bytes);
}

void mt_rule_cycles(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;
	bool collected =
		facts->trim.done && record->gc_state == MT_GC_DONE && record->gc_collected_count;
	uint64_t fell = collected ? freed_by_gc(facts) : 0;
	double share =
		record->live_before_bytes ? (double)fell / (double)record->live_before_bytes : 1;
	struct mt_finding *finding;
	bool grows = out->live.shape == MT_TREND_GROWS;

	if (fell < CYCLES_BYTES || share < CYCLES_SHARE)
		return;
	finding =
		mt_finding_add(out, MT_VERDICT_PYTHON_CYCLES, (double)fell, fmin(0.95, 0.6 + share),
			       "a collection just freed %s or more in cycles that waited for it",
			       mt_text_bytes(fell).text);
	if (grows) {
		finding->growth_per_s = out->live.slope * fmin(1, (double)fell / out->live.growth);
		finding->bytes =
			fmax(finding->bytes, finding->growth_per_s * MT_DIAGNOSE_HORIZON_S);
	}
	show_collection(facts, fell, finding);
	if (grows)
		mt_finding_trend(finding, "live heap until then", "live", &out->live);
	mt_finding_advise(finding, "Collect at the end of each round: MT_GC_ROUNDS=1, with rounds "
				   "marked by mtctl round or mt_round().");
	mt_finding_advise(finding, "Break the cycles: parent pointers as weakref.ref, no frames or "
				   "exceptions kept (del e, traceback).");
	mt_finding_advise(
		finding,
		"Look at gc.get_threshold(): a high first or third number lets garbage wait.");
}

uint32_t mt_facts_gc_state(const struct mt_facts *facts)
{
	uint32_t seen = facts->trim.done ? facts->trim.record.gc_state : MT_GC_NONE;

	return seen == MT_GC_DONE || seen == MT_GC_DISABLED ? seen : MT_GC_NONE;
}

/* Without collections nobody knows how much of the live bytes is garbage. If nothing grows there
 * is little, and many services disable the collector. */
void mt_rule_gc_off(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_trend *trend = &out->live;
	struct mt_finding *finding;

	if (mt_facts_gc_state(facts) != MT_GC_DISABLED || trend->shape != MT_TREND_GROWS)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_PYTHON_GC_OFF, trend->slope * MT_DIAGNOSE_HORIZON_S,
		trend->confidence * 0.7, /* it may all be a leak */
		"gc.disable() is in force, and live memory grows by %s: garbage in cycles, or a "
		"leak",
		mt_diagnose_rate(trend->slope).text);
	finding->growth_per_s = trend->slope;
	mt_finding_show(finding, "collector", "gc_disabled", 1,
			"disabled by the program; the last request to collect respected it");
	mt_finding_trend(finding, "live memory", "live", trend);
	mt_finding_bytes(finding, "live at the end", "heap_live_bytes",
			 mt_text_round_u64(out->live.last));
	mt_finding_advise(finding, "Call gc.enable(), or gc.collect() at the end of each round.");
	mt_finding_advise(finding,
			  "Run mtctl diagnose PID again then: what still grows is a leak.");
}

/* Free bytes in arenas, read from their pools. If those cannot be read, Python's count of
 * objects times the largest size is subtracted. Without a count all of it may be free. */
static uint64_t free_in_arenas(const struct mt_facts *facts, double *out_confidence)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t outside = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, outside_bytes));
	uint64_t blocks = facts->trim.done ? mt_facts_now(facts)->python_blocks_count : 0;

	*out_confidence = facts->arenas_known ? 0.9 : blocks ? 0.85 : 0.3;
	if (facts->arenas_known)
		return mt_sat_sub(last->arenas_bytes, last->arenas_live_bytes);
	return mt_sat_sub(outside, blocks * OBJECT_BYTES);
}

/* The option of the interpreter that has it ignore the library's reply: -I and -E the whole
 * environment, -X dev all but PYTHONMALLOC. NULL: none. */
static const char *ignoring_option(const struct mt_facts *facts)
{
	char command[sizeof(facts->process.command)], *saved = NULL, *word;

	snprintf(command, sizeof(command), "%s", facts->process.command);
	word = strtok_r(command, " ", &saved); /* the interpreter */
	while (word && (word = strtok_r(NULL, " ", &saved)) && word[0] == '-' && word[1] != '-') {
		size_t flags = strcspn(word + 1, "cmWX"); /* each takes the rest, or the next */
		char ends = word[1 + flags];
		const char *rest = ends ? word + flags + 2 : "";

		if (memchr(word + 1, 'I', flags))
			return "-I";
		if (memchr(word + 1, 'E', flags))
			return "-E";
		if (ends && !*rest)
			rest = strtok_r(NULL, " ", &saved);
		if (ends == 'X' && rest && strcmp(rest, "dev") == 0)
			return "-X dev";
		if (ends == 'c' || ends == 'm')
			break;
	}
	return NULL;
}

/* Under a low limit the heap for objects ends where it is used, and Python's arenas go on. */
static const char *helpful_value(const struct mt_facts *facts)
{
	return mt_stats_has_low_rlimit(&facts->last.head) ? "malloc" : "on";
}

void mt_diagnose_advise_python_malloc(const struct mt_facts *facts, struct mt_finding *finding,
				      const char *why)
{
	const char *option = ignoring_option(facts),
		   *set = mt_facts_variable(facts, "MT_PYTHON_MALLOC");

	if (facts->asleep && facts->asleep_reason == MT_ASLEEP_OFF)
		mt_finding_advise(finding, "Start it again without the setting that keeps the "
					   "library out (MT_ENABLE, MT_ONLY, MT_EXCLUDE).");
	else if (option)
		mt_finding_advise(finding,
				  "Restart it without %s, with which Python ignores "
				  "MT_PYTHON_MALLOC: %.120s.",
				  option, why);
	else if (set && strcmp(set, "off") != 0 && strcmp(set, "auto") != 0 &&
		 !mt_facts_variable(facts, "PYTHONMALLOC") &&
		 !mt_facts_variable(facts, "PYTHONDEVMODE"))
		mt_finding_advise(finding,
				  "MT_PYTHON_MALLOC=%.16s has no effect on this Python (%.60s): "
				  "restart it with another one, and %.80s.",
				  set,
				  facts->last.head.python
					  ? mt_stats_word_python(facts->last.head.python)
					  : "it does not ask",
				  why);
	else
		mt_finding_advise(finding,
				  "Restart it with MT_PYTHON_MALLOC=%s (or PYTHONMALLOC=malloc): "
				  "%.120s.",
				  helpful_value(facts), why);
}

static void show_arenas(const struct mt_facts *facts, struct mt_finding *finding)
{
	const struct mt_sample *last = mt_facts_last(facts);

	if (facts->arenas_known) {
		mt_finding_bytes(finding, "pools in arenas", "python_arenas_bytes",
				 last->arenas_bytes);
		mt_finding_show(finding, "live in them", "python_arenas_live_bytes",
				(double)last->arenas_live_bytes, "%s (%.0f %%)",
				mt_text_bytes(last->arenas_live_bytes).text,
				100 * (double)last->arenas_live_bytes / (double)last->arenas_bytes);
	} else {
		mt_finding_bytes(finding, "anonymous, outside of the heap", "outside_bytes",
				 last->outside_bytes);
		mt_finding_show(finding, "objects in them", "python_blocks_count",
				(double)mt_facts_now(facts)->python_blocks_count,
				"%s of at most %u bytes (0: unknown)",
				mt_text_count(mt_facts_now(facts)->python_blocks_count).text,
				OBJECT_BYTES);
	}
}

/* CPython frees an arena when its last object is freed. */
void mt_rule_python_arenas(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	double confidence;
	uint64_t bytes = free_in_arenas(facts, &confidence);
	struct mt_finding *finding;

	if (!facts->is_python || !facts->has_pymalloc || bytes < ARENAS_BYTES ||
	    (double)bytes < (double)last->anon_bytes * ARENAS_SHARE)
		return;
	finding = mt_finding_add(out, MT_VERDICT_PYTHON_ARENAS, (double)bytes, confidence,
				 "%s lie free in the arenas of Python's own allocator, each of "
				 "which one object can keep",
				 mt_text_bytes(bytes).text);
	show_arenas(facts, finding);
	mt_finding_bytes(finding, "anonymous memory in all", "anon_bytes", last->anon_bytes);
	if (!facts->asleep)
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	mt_finding_show(finding, "small objects", "pymalloc_used", 1, "in pymalloc (%s)",
			facts->last.head.python ? mt_stats_word_python(facts->last.head.python)
						: "PYTHONMALLOC is not set");
	mt_diagnose_advise_python_malloc(facts, finding,
					 "small objects then live where the shim can purge");
	mt_finding_name(finding, "python-malloc");
	if (facts->arenas_known && !facts->asleep)
		mt_finding_start_with(finding, "MT_PYTHON_MALLOC=%s", helpful_value(facts));
	mt_finding_advise(
		finding,
		"Until then: drop what lives long in one go, so that whole arenas become free.");
}
