#include "ctl/ui/top/row.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/channel/process_name.h"
#include "ctl/figures/cleanup_story.h"
#include "ctl/figures/figures.h"
#include "ctl/output/error.h"
#include "sys/saturating.h"

/* ---- marks ---- */

static struct mt_area_mark mark_of(const struct mt_cleanup_story *story)
{
	const struct mt_stats_cleanup *cleanup = story->cleanup;

	return (struct mt_area_mark){.time_ns = cleanup->time_ns,
				     .letter = cleanup->reason == MT_REASON_ROUND
						       ? 'r'
						       : mt_area_mark_letter(cleanup->level),
				     .has_freed = mt_stats_has_freed(cleanup) ||
						  (story->late && mt_stats_has_freed(story->late)),
				     .is_for_pressure = cleanup->pressure_sources != 0};
}

void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));

	marks->count = mt_cleanup_stories(file, stories);
	for (size_t i = 0; i < marks->count; i++)
		marks->list[i] = mark_of(&stories[i]);
	marks->kept_since_ns = mt_cleanup_kept_since_ns(file);
	free(stories);
}

struct mt_top_id mt_top_row_id(const struct mt_top_row *row)
{
	return (struct mt_top_id){row->process.pid, row->process.start_ticks};
}

bool mt_top_id_same(struct mt_top_id a, struct mt_top_id b)
{
	return a.pid == b.pid && a.start_ticks == b.start_ticks;
}

void mt_top_row_fill(struct mt_top_row *row, const struct mt_process_list_entry *entry)
{
	const struct mt_stats_snapshot *now = &entry->head.snapshot;

	row->process = entry->process;
	mt_process_title(entry->process.command, row->title, sizeof(row->title));
	row->parent = entry->parent;
	row->state = entry->state;
	row->why = entry->why;
	row->uses_cuda = entry->uses_cuda;
	row->own = entry->own;
	if (entry->state != MT_PROCESS_AWAKE)
		return;
	row->figures = (struct mt_top_figures){.peak_bytes = now->rss_peak_bytes,
					       .purge_count = now->purge_count,
					       .light_count = now->light_count,
					       .heavy_count = now->heavy_count,
					       .limit_bytes = now->pressure_limit_bytes,
					       .limit_used_bytes = now->pressure_used_bytes};
	memcpy(row->rank, entry->head.rank, sizeof(row->rank));
	row->pressure_level = now->pressure_level;
	if (now->uptime_ms)
		row->budget_used_pct = 100.0 *
				       ((double)now->purge_cost_ns + (double)now->refault_cost_ns) /
				       ((double)now->uptime_ms * 1e6);
}

struct mt_top_cleanup mt_top_row_last_cleanup(const struct mt_stats_file *file)
{
	struct mt_top_cleanup last = {0};

	for (uint64_t back = 0; back < MT_CLEANUPS_COUNT && back < file->head.cleanups_count;
	     back++) {
		const struct mt_stats_cleanup *record =
			mt_stats_file_cleanup(file, file->head.cleanups_count - back);

		if (!record || record->merged == 1)
			continue;
		last = (struct mt_top_cleanup){.time_ns = record->time_ns,
					       .before_bytes = record->rss_before_bytes,
					       .after_bytes = record->rss_after_bytes,
					       .reason = record->reason,
					       .level = record->level};
		break;
	}
	return last;
}

double mt_top_sums_fragmented_percent(const struct mt_process_tree_sums *sums)
{
	return sums->resident_bytes
		       ? 100.0 * (double)sums->fragmented_bytes / (double)sums->resident_bytes
		       : -1;
}
