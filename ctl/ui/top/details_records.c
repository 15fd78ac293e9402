/* ctl/ui/top/details_records.c -- what was cleaned, and when. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/process/stats_file.h"
#include "ctl/ui/top/details.h"
#include "ctl/ui/top/compact_number.h"

static void add_counts(struct mt_top_page *page, const struct mt_stats_snapshot *now)
{
	mt_top_page_add(
		page, MT_STYLE_PLAIN,
		" rounds %s   purges %s   light %s   heavy %s   for pressure %s   requests %s",
		mt_text_count(now->rounds_count).text, mt_text_count(now->purge_count).text,
		mt_text_count(now->light_count).text, mt_text_count(now->heavy_count).text,
		mt_text_count(now->pressure_clean_count).text,
		mt_text_count(now->requests_count).text);
	mt_top_page_add(page, MT_STYLE_PLAIN,
			" purges have returned %s in %s; faults charged to them cost %s",
			mt_text_bytes(now->purged_bytes).text, mt_text_ns(now->purge_cost_ns).text,
			mt_text_ns(now->refault_cost_ns).text);
}

static void add_record(struct mt_top_page *page, const struct mt_stats_cleanup *record)
{
	static const char *const results[] = {"nothing", "freed", "-"};
	struct mt_short_text gc = mt_text_count(record->gc_collected_count);
	char gpu[40] = "-", round[24] = "-";
	enum mt_top_style style = record->merged == 1   ? MT_STYLE_DIM
				  : record->result == 1 ? MT_STYLE_GOOD
							: MT_STYLE_PLAIN;

	if (record->gpu_before_bytes)
		snprintf(gpu, sizeof(gpu), "%.32s",
			 mt_top_change(record->gpu_before_bytes, record->gpu_after_bytes).text);
	if (record->round)
		snprintf(round, sizeof(round), "%" PRIu64, record->round);
	if (record->gc_state != MT_GC_DONE)
		snprintf(gc.text, sizeof(gc.text), "%s", mt_stats_word_gc_state(record->gc_state));
	mt_top_page_add(page, style,
			" %5" PRIu64 " %.8s %-11s %-5s %-7s %6s %6s %6s %9s %6s %-8s %-6s %s",
			record->number, mt_text_clock(record->time_ns).text,
			mt_stats_word_reason(record->reason), mt_stats_word_level(record->level),
			record->merged == 1 ? "merged" : results[record->result],
			mt_top_bytes(record->rss_before_bytes).text,
			mt_top_bytes(record->rss_after_bytes).text,
			mt_top_change(record->rss_before_bytes, record->rss_after_bytes).text,
			mt_text_ns(record->duration_ns).text, round, gc.text, gpu,
			mt_stats_word_pressure(record).text);
}

/* The newest first: it is what one has come for. */
void mt_top_page_records(struct mt_top_page *page, const struct mt_stats_file *file)
{
	uint64_t last = file->head.cleanups_count;

	add_counts(page, &file->head.snapshot);
	mt_top_page_add(page, MT_STYLE_HEADING,
			" %5s %-8s %-11s %-5s %-7s %6s %6s %6s %9s %6s %-8s %-6s %s", "NO", "TIME",
			"REASON", "LEVEL", "RESULT", "BEFORE", "AFTER", "CHANGE", "TOOK", "ROUND",
			"GC", "GPU", "PRESSURE");
	for (uint64_t back = 0; back < MT_CLEANUPS_COUNT && back < last; back++) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, last - back);

		if (record)
			add_record(page, record);
	}
	if (!last)
		mt_top_page_add(page, MT_STYLE_DIM, " no cleanup yet");
}
