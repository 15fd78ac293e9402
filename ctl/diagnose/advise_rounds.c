/* ctl/diagnose/advise_rounds.c -- rules on rounds: Python's collections, and the drops of live
 * bytes that show where a round ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/advise.h"

/* by collections: less is what every program leaves to the next one */
#define FREED_BYTES      (8 * MT_MIB)
#define LIVE_DROPS_LEAST 3
/* docs/settings.md: rounds by themselves for those that last as long */
#define ROUND_LEAST_S 30.0
#define VAIN_LEAST    5         /* cleanups in a row */
#define VAIN_NS       20000000u /* each */

static uint64_t fell_by(const struct mt_stats_cleanup *record)
{
	uint64_t live = mt_sat_sub(record->live_before_bytes, record->live_after_bytes);
	uint64_t anon = mt_sat_sub(record->anon_before_bytes, record->anon_after_bytes);

	return live > anon ? live : anon;
}

static int compare_gaps(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* How many drops of live bytes there are among the records, and how far apart on the median. */
static size_t count_live_drops(const struct mt_stats_file *file, double *out_gap_s)
{
	double gaps[MT_CLEANUPS_COUNT];
	uint64_t before_ns = 0, last = file->head.cleanups_count;
	uint64_t back = last < MT_CLEANUPS_COUNT ? last : MT_CLEANUPS_COUNT;
	size_t count = 0;

	while (back-- > 0) { /* not up to `last`: a forged one may be the largest number there is */
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, last - back);

		if (!record || record->reason != MT_REASON_LIVE_DROP)
			continue;
		if (before_ns && record->time_ns > before_ns)
			gaps[count++] = (double)(record->time_ns - before_ns) / 1e9;
		before_ns = record->time_ns;
	}
	if (!count)
		return before_ns != 0;
	qsort(gaps, count, sizeof(gaps[0]), compare_gaps);
	*out_gap_s = gaps[count / 2];
	return count + 1;
}

static bool has_rounds_unsaid(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	double gap_s = 0;
	size_t live_drops = count_live_drops(&facts->look.last, &gap_s);

	if (!facts->look.is_python || !mt_advise_setting_is(facts, "gc_rounds", "0") ||
	    mt_advise_figures(facts)->rounds_count || live_drops < LIVE_DROPS_LEAST ||
	    gap_s < ROUND_LEAST_S)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "live memory fell and stayed down %zu times, %.0f s apart on the median, as at "
		 "the ends of rounds; "
		 "Python's collector was never run there",
		 live_drops, gap_s);
	snprintf(out->environment, sizeof(out->environment), "MT_ROUND=auto MT_GC_ROUNDS=auto");
	snprintf(out->command, sizeof(out->command),
		 "mtctl set %d round=auto; mtctl set %d gc_rounds=auto",
		 (int)facts->look.process.pid, (int)facts->look.process.pid);
	return true;
}

/* What collections have freed that were asked for by hand, by a signal or by pressure. */
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

static bool leaves_garbage_in_rounds(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	uint64_t objects, bytes;
	size_t count;

	if (!mt_advise_setting_is(facts, "gc_rounds", "0"))
		return false;
	bytes = freed_by_collections(&facts->look.last, &objects, &count);
	if (!count || bytes / count < FREED_BYTES)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%s freed %s in cycles and %s; %s marked, and none "
		 "ended with one%s",
		 mt_text_counted(count, "collection that was asked for",
				 "collections that were asked for")
			 .text,
		 mt_text_counted(objects, "object", "objects").text, mt_text_bytes(bytes).text,
		 mt_text_counted(now->rounds_count, "round was", "rounds were").text,
		 now->rounds_count ? "" : " (mark them: mtctl round, or mt_round())");
	mt_advise_set(facts, out, "gc_rounds", "1");
	return true;
}

/* The last cleanups by rounds, back to the first that was worth it. */
static bool collects_in_vain(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_file *file = &facts->look.last;
	uint64_t spent_ns = 0;
	size_t count = 0;

	if (mt_advise_setting_is(facts, "gc_rounds", "auto") ||
	    !mt_advise_setting(facts, "gc_rounds"))
		return false;
	for (uint64_t number = file->head.cleanups_count; number; number--) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);

		if (!record)
			break;
		if (record->reason != MT_REASON_ROUND)
			continue;
		if (fell_by(record) >= MT_MIB)
			break;
		spent_ns += record->duration_ns;
		count++;
	}
	if (count < VAIN_LEAST || spent_ns / count < VAIN_NS)
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "the last %zu cleanups at ends of rounds took %s each and freed less than 1 MB "
		 "each",
		 count, mt_text_ns(spent_ns / count).text);
	mt_advise_set(facts, out, "gc_rounds", "auto");
	return true;
}

const struct mt_advise_rule mt_advise_round_rules[] = {
	{"rounds", has_rounds_unsaid},
	{"rounds", leaves_garbage_in_rounds},
	{"rounds", collects_in_vain},
	{NULL, NULL},
};
