#include "ctl/ui/top/row.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/process/cleanup_story.h"
#include "ctl/process/process_name.h"
#include "ctl/process/stats_words.h"
#include "sys/saturating.h"

/* ---- marks ---- */

static struct mt_top_mark mark_of(const struct mt_cleanup_story *story)
{
	const struct mt_stats_cleanup *cleanup = story->cleanup;

	return (struct mt_top_mark){.time_ns = cleanup->time_ns,
				    .letter = cleanup->reason == MT_REASON_ROUND ? 'r'
					      : cleanup->level == MT_LEVEL_HEAVY ? 'h'
					      : cleanup->level == MT_LEVEL_LIGHT ? 'l'
										 : 'p',
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

/* Resident bytes that are neither live, dirty, nor the allocator's own. Where the allocator counts
 * active pages, their bytes less the live ones: these counts are newer. */
static uint64_t fragmented_bytes(const struct mt_stats_snapshot *now)
{
	if (now->heap_active_bytes)
		return mt_sat_sub(now->heap_active_bytes, now->heap_live_bytes);
	return mt_sat_sub(mt_sat_sub(mt_sat_sub(now->heap_resident_bytes, now->heap_live_bytes),
				     now->heap_dirty_bytes),
			  now->heap_metadata_bytes);
}

static void fill_sums(struct mt_top_sums *sums, const struct mt_stats_snapshot *now)
{
	sums->fragmented_bytes = fragmented_bytes(now);
	sums->resident_bytes = now->heap_resident_bytes > now->heap_active_bytes
				       ? now->heap_resident_bytes
				       : now->heap_active_bytes;
	sums->gpu_allocated_bytes = now->gpu_allocated_bytes;
	sums->gpu_reserved_bytes = now->gpu_reserved_bytes;
	sums->gpu_idle_bytes = now->gpu_idle_bytes;
	sums->returned_bytes = now->purged_bytes;
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
	row->own.rss_bytes = entry->own.rss_bytes;
	row->own.parts = entry->own.parts;
	if (entry->state != MT_PROCESS_AWAKE)
		return;
	fill_sums(&row->own, now);
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

void mt_top_sums_add(struct mt_top_sums *to, const struct mt_top_sums *from)
{
	to->rss_bytes += from->rss_bytes;
	mt_memory_parts_add(&to->parts, &from->parts);
	to->resident_bytes += from->resident_bytes;
	to->fragmented_bytes += from->fragmented_bytes;
	to->gpu_allocated_bytes += from->gpu_allocated_bytes;
	to->gpu_reserved_bytes += from->gpu_reserved_bytes;
	to->gpu_idle_bytes += from->gpu_idle_bytes;
	to->returned_bytes += from->returned_bytes;
}

double mt_top_sums_fragmented_percent(const struct mt_top_sums *sums)
{
	return sums->resident_bytes
		       ? 100.0 * (double)sums->fragmented_bytes / (double)sums->resident_bytes
		       : -1;
}
