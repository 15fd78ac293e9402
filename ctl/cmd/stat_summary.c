/* ctl/cmd/stat_summary.c -- `mtctl stat`: a process in about ten lines. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/cleanup_story.h"
#include "ctl/process/clock.h"
#include "ctl/process/memory_parts.h"

#define LABEL     "%-10s "
#define BAR_CELLS 50

static void print_title(const struct mt_target *target)
{
	const struct mt_stats_head *head = &target->file.head;

	printf("%sprocess %d (%s)%s, awake for %s, figures of %s\n",
	       mt_table_colour(MT_COLOUR_HEAD), (int)target->process.pid, target->process.comm,
	       mt_table_colour_end(), mt_text_span(head->snapshot.uptime_ms * 1000000u).text,
	       mt_text_clock(head->time_ns).text);
}

static void print_rank(const struct mt_stats_head *head)
{
	if (!*head->rank)
		return;
	printf(LABEL "%s", "rank", head->rank);
	if (head->world_size)
		printf(" of %" PRIu64, head->world_size);
	printf(" (%s)\n", head->rank_source);
}

static void print_parts(const struct mt_stats_snapshot *now)
{
	const struct mt_memory_parts parts = mt_memory_parts_of_snapshot(now, now->rss_bytes);

	printf(LABEL "%10s  %s\n", "RSS", mt_text_bytes(now->rss_bytes).text,
	       mt_parts_bar(&parts, now->rss_bytes, BAR_CELLS).text);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		printf("  %-8s %10s  %s %s\n", mt_memory_part_word((enum mt_memory_part)i),
		       mt_text_bytes(parts.bytes[i]).text,
		       mt_parts_bar_cell((enum mt_memory_part)i).text,
		       mt_memory_part_meaning((enum mt_memory_part)i));
	printf(LABEL "%10s  the highest RSS; highest live %s\n", "peak",
	       mt_text_bytes(now->rss_peak_bytes).text,
	       mt_text_bytes(now->heap_live_peak_bytes).text);
}

static void print_limit(const struct mt_stats_file *file)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;

	if (mt_stats_file_is_off(file, "pressure"))
		printf(LABEL "%10s  not looked at (MT_PRESSURE=0)\n", "limit", "?");
	else if (!now->pressure_limit_bytes)
		printf(LABEL "%10s  none is known\n", "limit", "-");
	else
		printf(LABEL "%10s  %.1f %% of it used, pressure %s (%s)\n", "limit",
		       mt_text_bytes(now->pressure_limit_bytes).text,
		       mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		       mt_stats_word_pressure_level(now->pressure_level),
		       *file->head.limit_source ? file->head.limit_source : "?");
}

static void print_gpu(const struct mt_stats_head *head)
{
	const struct mt_stats_snapshot *now = &head->snapshot;

	if (!mt_stats_file_uses_cuda(head))
		return;
	printf(LABEL "%10s  reserved: allocated %s, pending %s, idle %s; other kinds %s\n", "gpu",
	       mt_text_bytes(now->gpu_reserved_bytes).text,
	       mt_text_bytes(now->gpu_allocated_bytes).text,
	       mt_text_bytes(now->gpu_pending_bytes).text, mt_text_bytes(now->gpu_idle_bytes).text,
	       mt_text_bytes(now->gpu_other_bytes).text);
}

static void print_total(const struct mt_stats_snapshot *now)
{
	double uptime_ns = (double)now->uptime_ms * 1e6;

	printf(LABEL "%10s  returned by %s, %s light, %s heavy", "cleanups",
	       mt_text_bytes(now->purged_bytes).text,
	       mt_text_counted(now->purge_count, "purge", "purges").text,
	       mt_text_count(now->light_count).text, mt_text_count(now->heavy_count).text);
	if (uptime_ns > 0)
		printf("; %.1f %% of the time",
		       100 * ((double)now->purge_cost_ns + (double)now->refault_cost_ns) /
			       uptime_ns);
	if (now->budget_ratio_thousandths)
		printf(", up to %g %%", (double)now->budget_ratio_thousandths / 10);
	putchar('\n');
}

static void print_last(const struct mt_stats_file *file)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(file, stories);
	uint64_t now_ns = mt_clock_realtime_ns();
	const struct mt_stats_cleanup *last = count ? stories[count - 1].cleanup : NULL;

	if (!last) {
		printf(LABEL "%10s  no cleanup yet\n", "last", "-");
	} else {
		printf(LABEL "%10s  %s ago: %s, %s, cost %s", "last",
		       mt_text_change(last->rss_before_bytes, last->rss_after_bytes).text,
		       mt_text_span(now_ns > last->time_ns ? now_ns - last->time_ns : 0).text,
		       mt_stats_word_reason(last->reason), mt_stats_word_level(last->level),
		       mt_text_ns(mt_cleanup_cost_ns(last)).text);
		if (last->gc_state != MT_GC_NONE)
			printf("; gc: %s", mt_cleanup_gc_text(&stories[count - 1]).text);
		putchar('\n');
	}
	free(stories);
}

void mt_stat_print_summary(const struct mt_target *target, const struct mt_stat_view *view)
{
	const struct mt_stats_file *file = &target->file;

	print_title(target);
	print_rank(&file->head);
	print_parts(&file->head.snapshot);
	print_limit(file);
	print_gpu(&file->head);
	print_total(&file->head.snapshot);
	print_last(file);
	mt_stat_print_odd(target, view, "odd");
}
