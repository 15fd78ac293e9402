/* ctl/report/cleanups.c -- the cleanups: when, why, what each returned, and what it cost apart from
 * its wait for Python. */
#include "ctl/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/figures/cleanup_story.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

#define SHOWN_MAX 60u /* rows; of more, those that returned most */

struct row {
	uint64_t time_ns, number, freed_bytes, before_bytes, after_bytes, gpu_freed_bytes, cost_ns,
		wait_ns;
	uint32_t level;
	const char *reason;
	char gc[64]; /* "": nothing was asked of Python, or not known */
};

struct rows {
	struct row *list;
	size_t count;
	bool has_gc, has_gpu;
};

static void add_stories(const struct mt_stats_file *file, struct rows *out)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(file, stories);

	out->list = mt_error_check_memory(calloc(count + 1, sizeof(*out->list)));
	for (size_t i = 0; i < count; i++) {
		const struct mt_stats_cleanup *cleanup = stories[i].cleanup;
		struct row *row = &out->list[out->count++];

		*row = (struct row){.time_ns = cleanup->time_ns,
				    .number = cleanup->number,
				    .before_bytes = cleanup->rss_before_bytes,
				    .after_bytes = cleanup->rss_after_bytes,
				    .freed_bytes = mt_sat_sub(cleanup->rss_before_bytes,
							      cleanup->rss_after_bytes),
				    .gpu_freed_bytes = mt_sat_sub(cleanup->gpu_before_bytes,
								  cleanup->gpu_after_bytes),
				    .cost_ns = mt_cleanup_cost_ns(cleanup),
				    .wait_ns = cleanup->gc_wait_ns,
				    .level = cleanup->level,
				    .reason = mt_stats_word_reason(cleanup->reason)};
		if (cleanup->gc_state != MT_GC_NONE)
			snprintf(row->gc, sizeof(row->gc), "%s",
				 mt_cleanup_gc_text(&stories[i]).text);
	}
	free(stories);
}

static uint64_t or_zero(uint64_t bytes)
{
	return bytes == MT_RECORDING_UNKNOWN ? 0 : bytes;
}

static void add_marks(const struct mt_recording *recording, struct rows *out)
{
	out->list = mt_error_check_memory(calloc(recording->marks_count + 1, sizeof(*out->list)));
	for (size_t i = 0; i < recording->marks_count; i++) {
		const struct mt_recording_mark *mark = &recording->marks[i];

		if (mark->kind != MT_RECORDING_CLEANUP)
			continue;
		out->list[out->count++] =
			(struct row){.time_ns = mark->time_ns,
				     .number = mark->number,
				     .before_bytes = or_zero(mark->rss_bytes[MT_RECORDING_BEFORE]),
				     .after_bytes = or_zero(mark->rss_bytes[MT_RECORDING_AFTER]),
				     .freed_bytes = mark->freed_bytes,
				     .gpu_freed_bytes = mark->gpu_freed_bytes,
				     .cost_ns = mt_sat_sub(mark->duration_ns, mark->gc_wait_ns),
				     .wait_ns = mark->gc_wait_ns,
				     .level = mark->level,
				     .reason = *mark->reason ? mark->reason : "?"};
	}
}

/* ---- which are shown ---- */

static int by_freed(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	uint64_t p = x->freed_bytes + x->gpu_freed_bytes, q = y->freed_bytes + y->gpu_freed_bytes;

	return (p < q) - (p > q);
}

static int by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static void write_sums(const struct rows *rows, FILE *to)
{
	uint64_t freed = 0, cost_ns = 0, longest_ns = 0, wait_ns = 0;

	for (size_t i = 0; i < rows->count; i++) {
		freed += rows->list[i].freed_bytes;
		cost_ns += rows->list[i].cost_ns;
		wait_ns += rows->list[i].wait_ns;
		if (rows->list[i].cost_ns > longest_ns)
			longest_ns = rows->list[i].cost_ns;
	}
	fputs("<p>", to);
	mt_html_textf(to, "%s returned %s in all and cost %s, the longest %s.",
		      mt_text_counted(rows->count, "cleanup", "cleanups").text,
		      mt_text_bytes(freed).text, mt_text_ns(cost_ns).text,
		      mt_text_ns(longest_ns).text);
	if (wait_ns)
		mt_html_textf(to, " They waited %s for Python's main thread.",
			      mt_text_ns(wait_ns).text);
	if (rows->count > SHOWN_MAX)
		mt_html_textf(to, " Shown are the %u that returned most.", SHOWN_MAX);
	fputs("</p>\n", to);
}

static void write_row(const struct rows *rows, const struct row *row, FILE *to)
{
	fputs("<tr>", to);
	mt_html_cell(to, "<td class=\"n\">", mt_text_clock(row->time_ns).text);
	mt_html_cell(to, "<td class=\"w\">", row->reason);
	mt_html_cell(to, "<td class=\"more\">", mt_stats_word_level(row->level));
	mt_html_cell(to, "<td class=\"n more\">",
		     row->before_bytes ? mt_text_bytes(row->before_bytes).text : "-");
	mt_html_cell(to, "<td class=\"n more\">",
		     row->before_bytes ? mt_text_bytes(row->after_bytes).text : "-");
	mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(row->freed_bytes).text);
	if (rows->has_gpu)
		mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(row->gpu_freed_bytes).text);
	mt_html_cell(to, "<td class=\"n\">", mt_text_ns(row->cost_ns).text);
	mt_html_cell(to, "<td class=\"n\">",
		     row->wait_ns >= 1000000 ? mt_text_ns(row->wait_ns).text : "-");
	if (rows->has_gc)
		mt_html_cell(to, "<td class=\"more\">", *row->gc ? row->gc : "-");
	fputs("</tr>\n", to);
}

static void write_table(const struct rows *rows, FILE *to)
{
	size_t count = rows->count < SHOWN_MAX ? rows->count : SHOWN_MAX;

	qsort(rows->list, rows->count, sizeof(*rows->list), by_freed);
	qsort(rows->list, count, sizeof(*rows->list), by_time);
	fputs("<table class=\"wide-table\"><thead><tr><th class=\"n\">Time</th><th>Reason</th>"
	      "<th class=\"more\">Level</th><th class=\"n more\">RSS before</th>"
	      "<th class=\"n more\">After</th><th class=\"n\">Returned</th>",
	      to);
	if (rows->has_gpu)
		fputs("<th class=\"n\">GPU</th>", to);
	fputs("<th class=\"n\">Cost</th><th class=\"n\">Waited</th>", to);
	if (rows->has_gc)
		fputs("<th class=\"more\">Python's gc</th>", to);
	fputs("</tr></thead><tbody>\n", to);
	for (size_t i = 0; i < count; i++)
		write_row(rows, &rows->list[i], to);
	fputs("</tbody></table>\n", to);
}

void mt_report_cleanups(const struct mt_report *report, FILE *to)
{
	struct rows rows = {0};

	if (report->target)
		add_stories(&report->target->file, &rows);
	else
		add_marks(report->recording, &rows);
	for (size_t i = 0; i < rows.count; i++) {
		rows.has_gc |= rows.list[i].gc[0] != '\0';
		rows.has_gpu |= rows.list[i].gpu_freed_bytes != 0;
	}
	fputs("<section id=\"cleanups\">\n<h2>Cleanups</h2>\n", to);
	if (rows.count) {
		write_sums(&rows, to);
		write_table(&rows, to);
	} else {
		fputs("<p class=\"note\">none</p>\n", to);
	}
	if (report->target && mt_cleanup_kept_since_ns(&report->target->file))
		mt_html_textf(to, "%" PRIu64 " older ones are not kept.",
			      report->target->file.head.cleanups_count - MT_CLEANUPS_COUNT);
	fputs("</section>\n", to);
	free(rows.list);
}
