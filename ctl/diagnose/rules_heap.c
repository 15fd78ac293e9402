/* ctl/diagnose/rules_heap.c -- causes in the heap: hoard and leak. */
#include <math.h>
#include <stdio.h>

#include "ctl/diagnose/diagnose.h"

/* the worker keeps less than this by default: MT_SLACK_MB, MT_SLACK_PCT */
#define HOARD_BYTES (64 * MT_MIB)
#define HOARD_SHARE 0.10 /* of RSS */
/* of RSS: less is no finding if a trim cannot help */
#define PINNED_SHARE 0.25
/* of the time asked for, and of live bytes: less is little if it has just woken up */
#define WOKEN_TIME_SHARE 0.5
#define WOKEN_SHARE      0.25
/* of the growth of live bytes: enough to name the class, and to show it */
#define CLASS_SHARE       0.5
#define CLASS_SHOWN_SHARE 0.25
/* in a leak of a Python program whose collector may be disabled: not high */
#define UNASKED_CONFIDENCE 0.7
/* one look reads the history of so long in the place of samples */
#define NOW_S 4.0
/* with fewer threads it is not the number of arenas that leaves blocks far apart */
#define THREADS_MANY 4
/* all bytes that were allocated, to the most that were live at a time; the mean size of a block */
#define TURNOVER_MIN      4
#define SMALL_BLOCK_BYTES 512

static uint64_t gate_bytes(const struct mt_facts *facts)
{
	uint64_t share = (uint64_t)((double)mt_facts_last(facts)->rss_bytes * HOARD_SHARE);

	return share > HOARD_BYTES ? share : HOARD_BYTES;
}

/* ---- hoard ---- */

struct hoard {
	/* resident and not live in all samples of the newer half */
	uint64_t kept_bytes;
	uint64_t idle_bytes;     /* idle in all of them, as the worker counts, and resident */
	uint64_t returned_bytes; /* by the test trim, less what its collection has freed */
	/* after the trim; without one what a trim would leave, as far as the allocator tells */
	uint64_t left_bytes;
};

/* The least that was idle; one look has only the history for it. */
static uint64_t least_idle(const struct mt_facts *facts)
{
	uint64_t least = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, idle_bytes));

	for (size_t i = 0; facts->samples_count == 1 && i < facts->history_count; i++)
		if (facts->history[i].at_s >= -NOW_S)
			least = mt_min_u64(least, facts->history[i].idle_bytes);
	return least;
}

static struct hoard measure_hoard(const struct mt_facts *facts)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	uint64_t between = mt_sat_sub(now->heap_active_bytes, now->heap_live_bytes);
	struct hoard hoard = {
		/* without a count of what is live: what the trim returned was free */
		.kept_bytes = mt_diagnose_minimum(facts, 2,
						  mt_diagnose_knows_live(facts)
							  ? offsetof(struct mt_sample, slack_bytes)
							  : offsetof(struct mt_sample, anon_bytes)),
		.idle_bytes = least_idle(facts),
	};

	if (facts->trim.done)
		hoard.returned_bytes =
			mt_sat_sub(mt_sat_sub(record->anon_before_bytes, record->anon_after_bytes),
				   mt_sat_sub(record->live_before_bytes, record->live_after_bytes));
	if (facts->libc_free_known)
		hoard.kept_bytes =
			mt_min_u64(hoard.kept_bytes, facts->libc_free_bytes + hoard.returned_bytes);
	hoard.idle_bytes = mt_min_u64(hoard.idle_bytes, hoard.kept_bytes);
	hoard.left_bytes = facts->trim.done ? mt_sat_sub(hoard.kept_bytes, hoard.returned_bytes)
					    : mt_min_u64(hoard.kept_bytes, between);
	return hoard;
}

static void show_hoard(const struct mt_facts *facts, const struct hoard *hoard,
		       struct mt_finding *finding)
{
	const struct mt_sample *last = mt_facts_last(facts);

	if (facts->trim.done)
		mt_finding_bytes(finding, "a trim just returned", "trim_returned_bytes",
				 hoard->returned_bytes);
	if (mt_diagnose_knows_live(facts)) {
		mt_finding_bytes(finding, "resident and unused throughout", "kept_bytes",
				 hoard->kept_bytes);
		mt_finding_bytes(finding, "reusable throughout", "heap_idle_bytes",
				 hoard->idle_bytes);
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
	}
	mt_finding_bytes(finding, "RSS before", "rss_bytes", last->rss_bytes);
	mt_finding_show(finding, "allocator", "heap_arenas_count",
			(double)mt_facts_now(facts)->heap_arenas_count, "%s, mode %s",
			facts->last.head.allocator, mt_stats_word_mode(facts->last.head.mode));
}

/* What of the hoard a trim returns; 0 if that is too little for a finding, or no more than what the
 * user has chosen to keep. */
static uint64_t returnable_bytes(const struct mt_facts *facts, const struct hoard *hoard)
{
	uint64_t bytes = facts->trim.done ? mt_min_u64(hoard->returned_bytes, hoard->kept_bytes)
					  : hoard->idle_bytes;

	return bytes >= mt_max_u64(gate_bytes(facts), mt_facts_chosen_slack(facts)) ? bytes : 0;
}

void mt_rule_returnable(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct hoard hoard = measure_hoard(facts);
	const char *budget = mt_stats_file_setting(&facts->last, "budget_pct");
	bool tried = facts->trim.done;
	uint64_t bytes = returnable_bytes(facts, &hoard);
	struct mt_finding *finding;

	if (!bytes)
		return;
	if (tried)
		finding = mt_finding_add(
			out, MT_VERDICT_HOARD, (double)bytes, 0.95,
			"the allocator keeps what the program has freed: a trim just returned %s",
			mt_text_bytes(hoard.returned_bytes).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_HOARD, (double)bytes, 0.75,
					 "the allocator keeps %s that the program has freed",
					 mt_text_bytes(bytes).text);
	if (out->rss.shape == MT_TREND_GROWS && (double)bytes >= out->rss.growth / 2)
		finding->growth_per_s = out->rss.slope;
	show_hoard(facts, &hoard, finding);
	mt_finding_advise(finding, "%s the memory back when you like: mtctl trim PID.",
			  tried ? "Ask for" : "Get");
	if (budget && budget[0] == '0' && !budget[1])
		mt_finding_advise(
			finding, "Let the worker thread work: mtctl set PID budget_pct=3 (it is 0: "
				 "only when asked).");
	else
		mt_finding_advise(finding, "Lower MT_SLACK_MB or MT_SLACK_PCT, or end rounds with "
					   "MT_GC_ROUNDS, so that it goes back by itself.");
}

/* Free blocks in the caches of threads: a thread empties its cache as it allocates; of many threads
 * the worker empties those that sleep, and a trim in any case. */
static void find_thread_caches(const struct mt_facts *facts, const struct hoard *hoard,
			       uint64_t cached_bytes, struct mt_diagnosis *out)
{
	uint64_t threads = mt_facts_now(facts)->threads_count;
	struct mt_finding *finding =
		mt_finding_add(out, MT_VERDICT_HOARD, (double)cached_bytes, 0.7,
			       "%s lie free in the caches of %s", mt_text_bytes(cached_bytes).text,
			       mt_text_counted(threads, "thread", "threads").text);

	show_hoard(facts, hoard, finding);
	mt_finding_bytes(finding, "free in thread caches", "heap_thread_cache_bytes", cached_bytes);
	mt_finding_advise(finding, "mtctl trim PID empties the caches of those that sleep.");
	mt_finding_advise(finding,
			  "Start fewer threads, or let those end that have nothing to do.");
	mt_finding_advise(finding, "Restart it with MT_MALLOC_CONF=tcache_max:8192: no cache keeps "
				   "larger blocks.");
}

/* Whether its blocks come and go, or are small: libc's malloc then needs less than jemalloc. It
 * needs more if one large free has left a few survivors (docs/decisions/0063). */
static bool suits_libc(const struct mt_stats_snapshot *now)
{
	uint64_t live_count = mt_sat_sub(now->heap_alloc_count, now->heap_free_count);
	uint64_t peak_bytes = mt_max_u64(now->heap_live_peak_bytes, now->heap_live_bytes);

	return live_count && (now->heap_allocated_bytes / TURNOVER_MIN >= peak_bytes ||
			      (now->heap_live_bytes / live_count <= SMALL_BLOCK_BYTES &&
			       now->heap_live_bytes >= peak_bytes / TURNOVER_MIN));
}

static void advise_between_blocks(const struct mt_facts *facts, struct mt_finding *finding)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);

	mt_finding_name(finding, "allocator");
	if (mt_stats_has_low_rlimit(&facts->last.head)) {
		mt_finding_advise(finding,
				  "Restart it with RLIMIT_AS and RLIMIT_DATA above 4 GB: the "
				  "embedded jemalloc then serves, which mixes lifetimes less "
				  "than libc's malloc, and takes more address space.");
	} else if (facts->last.head.mode == MT_MODE_LIBC) {
		mt_finding_advise(finding, "Another allocator is not advised: %.150s.",
				  facts->last.head.evidence);
	} else if (!now->heap_resident_bytes) {
		mt_finding_start_with(finding, "MT_ALLOCATOR=jemalloc");
		mt_finding_advise(finding,
				  "Restart it with MT_ALLOCATOR=jemalloc: it mixes lifetimes less "
				  "than %.20s.",
				  facts->last.head.allocator);
	} else if (suits_libc(now)) {
		mt_finding_start_with(finding, "MT_ALLOCATOR=system");
		mt_finding_advise(finding,
				  "Restart it with MT_ALLOCATOR=system: libc's malloc packs "
				  "blocks that come and go more densely.");
	} else {
		mt_finding_advise(finding,
				  "Try MT_ALLOCATOR=system, and compare: it helps where blocks "
				  "come and go, not where one large free left survivors.");
	}
	mt_finding_advise(finding, "Keep what lives long apart from what is short-lived: load it "
				   "first, or copy the survivors.");
	if (now->threads_count >= THREADS_MANY && now->heap_arenas_count > 2)
		mt_finding_advise(finding, "Lower the number of arenas: MT_ARENA_MAX=2.");
}

/* Pages and slabs with live blocks cannot be returned, however little is live in them. The embedded
 * allocator counts them; of another one only a trim tells. */
void mt_rule_between_blocks(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct hoard hoard = measure_hoard(facts);
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	bool is_embedded = now->heap_resident_bytes != 0;
	double confidence = is_embedded ? 0.6 : facts->has_pymalloc ? 0.2 : 0.4;
	struct mt_finding *finding;

	if ((!facts->trim.done && !is_embedded) || !mt_diagnose_knows_live(facts) ||
	    returnable_bytes(facts, &hoard) || hoard.left_bytes < gate_bytes(facts) ||
	    (double)hoard.left_bytes < (double)mt_facts_last(facts)->rss_bytes * PINNED_SHARE)
		return;
	if (now->heap_thread_cache_bytes >= hoard.left_bytes / 2) {
		find_thread_caches(facts, &hoard, now->heap_thread_cache_bytes, out);
		return;
	}
	finding =
		mt_finding_add(out, MT_VERDICT_HOARD, (double)hoard.left_bytes, confidence,
			       "%s lie free between live blocks, in pages that cannot be returned",
			       mt_text_bytes(hoard.left_bytes).text);
	show_hoard(facts, &hoard, finding);
	mt_finding_bytes(finding, facts->trim.done ? "left after the trim" : "between live blocks",
			 facts->trim.done ? "kept_after_trim_bytes" : "between_blocks_bytes",
			 hoard.left_bytes);
	advise_between_blocks(facts, finding);
}

/* ---- leak ---- */

struct grown_class {
	uint64_t block_bytes, grown_count;
	double grown_bytes, share;
};

static uint64_t count_of(const struct mt_diagnose_classes *classes, uint64_t block_bytes)
{
	for (size_t i = 0; i < classes->count; i++)
		if (classes->list[i].block_bytes == block_bytes)
			return classes->list[i].live_count;
	return 0;
}

/* The class with the largest growth, and its share of the growth of live bytes: Python's objects
 * are in no class. live_growth: of live bytes, in bytes. */
static struct grown_class find_class(const struct mt_facts *facts, double live_growth)
{
	struct grown_class best = {0};
	double all = 0;

	for (size_t i = 0; facts->classes_first.count && i < facts->classes_last.count; i++) {
		const struct mt_stats_class *class = &facts->classes_last.list[i];
		uint64_t grown = mt_sat_sub(class->live_count,
					    count_of(&facts->classes_first, class->block_bytes));
		double bytes = (double)grown * (double)class->block_bytes;

		all += bytes;
		if (bytes > best.grown_bytes)
			best = (struct grown_class){class->block_bytes, grown, bytes, 0};
	}
	all = fmax(all, live_growth);
	best.share = all > 0 ? best.grown_bytes / all : 0;
	return best;
}

/* Whether live bytes have been as high before and came down again: then a rise proves nothing. The
 * trend itself knows it if the history has what the program holds; with pymalloc it has not. */
static bool came_down_before(const struct mt_facts *facts, const struct mt_trend *live)
{
	double highest = 0;

	for (size_t i = 0; facts->has_pymalloc && i < facts->history_count; i++) {
		double value = (double)facts->history[i].live_bytes;

		highest = fmax(highest, value);
		if (highest >= live->last && value <= highest - live->growth)
			return true;
	}
	return highest >= live->last && highest - live->lowest >= live->growth;
}

static uint64_t freed_by_gc(const struct mt_facts *facts)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;

	return facts->trim.done && record->gc_collected_count
		       ? mt_sat_sub(record->live_before_bytes, record->live_after_bytes)
		       : 0;
}

/* Whether nobody knows that Python's collector is enabled: without it garbage in cycles grows as a
 * leak does. */
static bool may_be_cycles(const struct mt_facts *facts)
{
	return facts->is_python && mt_facts_gc_state(facts) == MT_GC_NONE;
}

static double leak_confidence(const struct mt_facts *facts, const struct mt_trend *live)
{
	double confidence = live->confidence * mt_diagnose_build_up_trust(facts, live, live->last);
	double back = (double)freed_by_gc(facts) / live->growth;

	if (came_down_before(facts, live))
		confidence *= 0.4;
	/* it has woken up because it has grown: a little more right after it proves nothing */
	if (facts->has_woken && live->decided_s < facts->duration_s * WOKEN_TIME_SHARE &&
	    live->growth < live->last * WOKEN_SHARE)
		confidence *= 0.5;
	if (mt_facts_gc_state(facts) == MT_GC_DISABLED)
		confidence *= 0.5; /* uncollected cycles look the same */
	if (may_be_cycles(facts))
		confidence = fmin(confidence, UNASKED_CONFIDENCE);
	return confidence * (back < 1 ? 1 - back : 0);
}

static void show_classes(const struct grown_class *class, struct mt_finding *finding)
{
	if (!class->grown_count || class->share < CLASS_SHOWN_SHARE)
		return;
	mt_finding_show(finding, "class that grew most", "grown_class_bytes", class->grown_bytes,
			"%s of %s B: %s, %.0f %% of the growth",
			mt_text_counted(class->grown_count, "more block", "more blocks").text,
			mt_text_count(class->block_bytes).text,
			mt_text_bytes(mt_text_round_u64(class->grown_bytes)).text,
			class->share * 100);
}

static void show_sites(const struct mt_facts *facts, struct mt_finding *finding)
{
	const struct mt_diagnose_sites *sites = &facts->sites;

	for (size_t i = 0; i < sites->count && i < 3; i++) {
		const struct mt_diagnose_site *site = &sites->list[i];
		char name[56];

		snprintf(name, sizeof(name), "site_%zu_grown_bytes", i + 1);
		mt_finding_show(finding, i ? "" : "allocated at", name, (double)site->grown_bytes,
				"%.170s (+%s)", site->name, mt_text_bytes(site->grown_bytes).text);
	}
	if (sites->count)
		mt_finding_advise(finding, "Look at %.180s: what it allocates is not freed.",
				  sites->list[0].name);
	else if (*sites->why_not)
		mt_finding_advise(finding, "To see which function allocates: %.150s.",
				  sites->why_not);
}

void mt_diagnose_show_lines(const struct mt_facts *facts, struct mt_finding *finding)
{
	for (size_t i = 0; i < facts->lines_count; i++) {
		const struct mt_diagnose_line *line = &facts->lines[i];
		char name[56];

		snprintf(name, sizeof(name), "python_line_%zu_grown_bytes", i + 1);
		mt_finding_show(finding, i ? "" : "Python line", name, line->grown_bytes,
				"%s (+%s in %.0f s)", line->where,
				mt_text_bytes((uint64_t)line->grown_bytes).text, line->seconds);
	}
	if (facts->lines_count)
		mt_finding_advise(finding,
				  "Look at %.150s: what it allocates is kept. mtctl sites --python "
				  "shows who calls it.",
				  facts->lines[0].where);
	else if (*facts->lines_why)
		mt_finding_show(finding, "Python line", "python_line_1_grown_bytes", 0, "%.190s",
				facts->lines_why);
}

/* What a cleanup could do about it. */
static void show_trim(const struct mt_facts *facts, struct mt_finding *finding)
{
	if (may_be_cycles(facts)) {
		mt_finding_show(finding, "Python's gc", "gc_asked", 0,
				"has not collected; what it would free may be garbage");
		mt_finding_advise(finding,
				  "Run mtctl diagnose PID --gc, which collects unless the program "
				  "has disabled gc: it tells a leak from garbage in cycles.");
	} else if (facts->trim.done && facts->trim.record.gc_state != MT_GC_NONE)
		mt_finding_show(
			finding, "Python's gc freed of it", "gc_freed_bytes",
			(double)freed_by_gc(facts), "%s (gc: %s, %s)",
			mt_text_bytes(freed_by_gc(facts)).text,
			mt_stats_word_gc_state(facts->trim.record.gc_state),
			mt_text_counted(facts->trim.record.gc_collected_count, "object", "objects")
				.text);
	if (facts->trim.done)
		mt_finding_show(finding, "a trim", "trim_returned_bytes",
				(double)measure_hoard(facts).returned_bytes,
				"returned %s that was free, and nothing of what is live",
				mt_text_bytes(measure_hoard(facts).returned_bytes).text);
}

void mt_rule_leak(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_trend *live = &out->live;
	/* the classes were read at both ends of the samples: the history is not in them */
	double sampled_s = mt_facts_last(facts)->at_s - facts->samples[0].at_s;
	struct grown_class class = find_class(facts, live->slope * sampled_s);
	struct mt_finding *finding;
	char blocks[96] = "";

	if (live->shape != MT_TREND_GROWS)
		return;
	if (class.share >= CLASS_SHARE)
		snprintf(blocks, sizeof(blocks), " in blocks of %s B",
			 mt_text_count(class.block_bytes).text);
	finding = mt_finding_add(
		out, MT_VERDICT_LEAK, live->slope * MT_DIAGNOSE_HORIZON_S,
		leak_confidence(facts, live), "live memory grows by %s (95 %%: %s to %s)%s%s",
		mt_diagnose_rate(live->slope).text, mt_diagnose_rate(live->slope_low).text,
		mt_diagnose_rate(live->slope_high).text, blocks,
		may_be_cycles(facts) ? ": a leak, or garbage if Python's gc is disabled" : "");
	finding->growth_per_s = live->slope;
	finding->block_bytes = class.share >= CLASS_SHARE ? class.block_bytes : 0;
	mt_finding_trend(finding, "live memory", "live", live);
	mt_finding_bytes(finding, "live at the end", "heap_live_bytes",
			 mt_text_round_u64(live->last));
	show_classes(&class, finding);
	show_trim(facts, finding);
	if (came_down_before(facts, live))
		mt_finding_show(finding, "before the diagnosis", "came_down_before", 1,
				"it has been as high, and came down again");
	mt_diagnose_show_lines(facts, finding);
	show_sites(facts, finding);
	if (facts->is_python && !facts->lines_count)
		mt_finding_advise(finding, "For the line in Python: mtctl sites PID --python.");
	mt_finding_advise(finding, "Find what keeps references: lists, dicts and caches that only "
				   "grow. No allocator can return it.");
}
