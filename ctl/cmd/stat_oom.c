/* ctl/cmd/stat_oom.c -- `mtctl stat --oom` as text: the reports of devices out of memory, and of
 * MT_RSS_LIMIT_MB. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/figures.h"

/* A figure that is known only while it is not 0 is left out with it, and device memory of a
 * program that has none. */
static void print_figures(enum mt_figure_list list, const void *report)
{
	struct mt_table *table = mt_table_new("<  WHAT|>VALUE|<MEANING");

	for (const struct mt_figure *figure = mt_figures(list); figure->name; figure++) {
		bool is_known = mt_figure_is_known(figure, report);

		if (!*figure->label || (!is_known && figure->known_offset == figure->offset) ||
		    !mt_figure_applies(figure, mt_figure_value(figure, report) != 0))
			continue;
		mt_table_addf(table, "  %s", figure->label);
		mt_table_add_row(table, is_known ? mt_figure_text(figure, report).text : "?",
				 figure->help, NULL);
	}
	mt_table_print(table);
}

static void print_report(const struct mt_stats_oom *oom)
{
	printf("%sout of memory %" PRIu64 "%s, %s: %s asked for %s on GPU %" PRIu64 "\n",
	       mt_table_colour(MT_COLOUR_HEAD), oom->number, mt_table_colour_end(),
	       mt_text_clock(oom->time_ns).text, oom->function,
	       mt_text_bytes(oom->asked_bytes).text, oom->device);
	print_figures(MT_FIGURES_OOM, oom);
	printf("  flushes and second tries (num_alloc_retries) %s, errors on this device "
	       "(num_ooms) %s\n",
	       mt_text_count(oom->num_alloc_retries).text, mt_text_count(oom->num_ooms).text);
	if (oom->unreported_count)
		printf("  errors before it that left no report: %s\n",
		       mt_text_count(oom->unreported_count).text);
	printf("  likely cause: %s\n", mt_stats_word_oom_cause(oom->cause));
	if (*oom->advice)
		printf("  -> %s\n", oom->advice);
}

static void print_limit_report(const struct mt_stats_limit_report *limit_report)
{
	printf("%slimit report %" PRIu64
	       "%s, %s: MT_RSS_LIMIT_MB, %s, was reached with %s; who held what after a heavy "
	       "cleanup:\n",
	       mt_table_colour(MT_COLOUR_HEAD), limit_report->number, mt_table_colour_end(),
	       mt_text_clock(limit_report->time_ns).text,
	       mt_text_bytes(limit_report->limit_bytes).text,
	       mt_text_counted(limit_report->threads_count, "thread", "threads").text);
	print_figures(MT_FIGURES_LIMIT_REPORT, limit_report);
	if (*limit_report->advice)
		printf("  -> %s\n", limit_report->advice);
}

/* Prints a blank line between two reports. */
static void separate(uint64_t *shown)
{
	if ((*shown)++)
		putchar('\n');
}

void mt_stat_print_oom_text(const struct mt_target *target)
{
	const struct mt_stats_file *file = &target->file;
	uint64_t ooms = file->head.ooms_count, limit_reports = file->head.limit_reports_count,
		 shown = 0;

	for (uint64_t back = MT_OOMS_COUNT; back-- > 0;) {
		const struct mt_stats_oom *oom = mt_stats_file_oom(file, ooms - back);

		if (back >= ooms || !oom)
			continue;
		separate(&shown);
		print_report(oom);
	}
	for (uint64_t back = MT_LIMIT_REPORTS_COUNT; back-- > 0;) {
		const struct mt_stats_limit_report *limit_report =
			mt_stats_file_limit_report(file, limit_reports - back);

		if (back >= limit_reports || !limit_report)
			continue;
		separate(&shown);
		print_limit_report(limit_report);
	}
	if (shown)
		return;
	if (limit_reports)
		printf("MT_RSS_LIMIT_MB was reached (%s), but the reports are not there\n",
		       mt_text_counted(limit_reports, "time", "times").text);
	else if (file->head.snapshot.gpu_num_ooms)
		printf("out-of-memory errors have reached this program (%s), but their reports are "
		       "not there\n",
		       mt_text_count(file->head.snapshot.gpu_num_ooms).text);
	else
		puts("no out-of-memory error has reached this program");
}
