/* ctl/report/memory.c -- the four parts of memory, at the end and over time; the devices. */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/figures/stats_file.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/metrics/run.h"
#include "ctl/output/text.h"
#include "ctl/report/report.h"
#include "sys/saturating.h"

/* Of all processes: samples of one moment have the same time. */
static struct mt_memory_parts last_parts(const struct mt_recording *recording)
{
	size_t count = recording->samples_count;
	uint64_t last_ns = count ? recording->samples[count - 1].time_ns : 0;
	struct mt_memory_parts sum = {.is_known = false};

	while (count-- > 0 && recording->samples[count].time_ns == last_ns) {
		const struct mt_recording_sample *sample = &recording->samples[count];
		struct mt_memory_parts parts;

		if (sample->bytes[MT_RECORDING_RSS] == MT_RECORDING_UNKNOWN)
			continue;
		parts = mt_recording_parts(sample->bytes);
		mt_memory_parts_add(&sum, &parts);
	}
	return sum;
}

static void write_parts(const struct mt_memory_parts *parts, FILE *to)
{
	uint64_t rss = mt_memory_parts_sum(parts);

	fputs("<div class=\"bar\" role=\"img\" aria-label=\"the four parts of RSS\">", to);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		fprintf(to, "<i class=\"%s\" style=\"width:%.2f%%\"></i>",
			mt_memory_part_word((enum mt_memory_part)i),
			mt_stats_percent(parts->bytes[i], rss));
	fputs("</div>\n<table><tbody>\n", to);
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		const char *word = mt_memory_part_word((enum mt_memory_part)i);

		fprintf(to, "<tr><td class=\"k\"><span class=\"dot %s\"></span>%s</td>", word,
			word);
		mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(parts->bytes[i]).text);
		fprintf(to, "<td class=\"n\">%.0f %%</td>", mt_stats_percent(parts->bytes[i], rss));
		mt_html_cell(to, "<td>", mt_memory_part_meaning((enum mt_memory_part)i));
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table>\n", to);
}

/* Peak, mean, limit. */
static void write_figures(const struct mt_report *report, FILE *to)
{
	const struct mt_recording *recording = report->recording;
	const struct mt_limit *limit = report->facts->limit_known ? &report->facts->limit : NULL;
	struct mt_run run;

	mt_run_of(recording, NULL, &run);
	if (report->target && report->target->file.head.snapshot.rss_peak_bytes > run.rss.peak)
		run.rss.peak = (double)report->target->file.head.snapshot.rss_peak_bytes;
	fputs("<p>", to);
	mt_html_textf(to, "Peak %s; mean %s over %s.",
		      mt_text_bytes(mt_text_round_u64(run.rss.peak)).text,
		      mt_text_bytes(mt_text_round_u64(run.rss.mean)).text,
		      mt_text_span(mt_text_round_u64(run.seconds * 1e9)).text);
	if (limit && limit->limit_bytes)
		mt_html_textf(to, " %.1f %% of the limit of %s is used (%s).",
			      mt_limit_percent(limit), mt_text_bytes(limit->limit_bytes).text,
			      limit->is_cgroup ? limit->source : "the whole machine");
	fputs("</p>\n", to);
}

static void write_picture(const struct mt_report *report, FILE *to)
{
	fputs("</section>\n<section id=\"time\">\n<h2>Memory over time</h2>\n", to);
	fputs("<div class=\"plot wide\">\n", to);
	fputs(report->wide, to);
	fputs("</div>\n<div class=\"plot narrow\">\n", to);
	fputs(report->narrow, to);
	fputs("</div>\n", to);
	if (report->look)
		fputs("<p class=\"note\">A process keeps its last 15 minutes, more while "
		      "little changes. For longer runs: <code>mtctl record</code>.</p>\n",
		      to);
}

static void write_unknown(const char *what, const struct mt_report *report, FILE *to)
{
	const char *why = report->facts->why_not;

	fputs("<p class=\"note\">", to);
	mt_html_textf(to, "%s nothing is known: %s.", what,
		      *why ? why : "its last samples have none");
	fputs("</p>\n", to);
}

void mt_report_memory(const struct mt_report *report, FILE *to)
{
	const struct mt_memory_parts parts = last_parts(report->recording);

	if (!report->recording->samples_count)
		return;
	fputs("<section id=\"memory\">\n<h2>", to);
	mt_html_textf(to, "%s: RSS %s",
		      report->look && !report->facts->ended ? "Memory now"
							    : "Memory at the last look",
		      mt_text_bytes(mt_memory_parts_sum(&parts)).text);
	fputs("</h2>\n", to);
	if (parts.is_known)
		write_parts(&parts, to);
	else
		write_unknown("Of its parts", report, to);
	write_figures(report, to);
	if (report->wide)
		write_picture(report, to);
	fputs("</section>\n", to);
}

/* ---- devices ---- */

static const json_t *device_line(const json_t *root, uint64_t ordinal)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(root, "devices"), i, one)
	{
		const json_t *number = json_object_get(one, "ordinal");

		if (json_is_integer(number) && (uint64_t)json_integer_value(number) == ordinal)
			return one;
	}
	return NULL;
}

static void write_device(const struct mt_recording_device *device, const json_t *line, FILE *to)
{
	json_int_t total = json_integer_value(json_object_get(line, "total_bytes"));
	char name[32];

	snprintf(name, sizeof(name), "GPU %" PRIu64, device->ordinal);
	mt_html_row(to, "||n|n|n", name, mt_report_member(line, "name"),
		    mt_text_bytes(device->allocated_bytes).text,
		    mt_text_bytes(device->reserved_bytes).text,
		    total > 0 ? mt_text_bytes((uint64_t)total).text : "-");
}

/* The last figures of each device, as the root uses it. */
void mt_report_devices(const struct mt_report *report, FILE *to)
{
	const struct mt_recording *recording = report->recording;
	const struct mt_recording_device *last[MT_DEVICES_COUNT] = {NULL};
	bool any = false;

	for (size_t i = 0; i < recording->devices_count; i++)
		if (recording->devices[i].pid == recording->pid) {
			last[recording->devices[i].ordinal] = &recording->devices[i];
			any = true;
		}
	if (!any)
		return;
	fputs("<section id=\"devices\">\n<h2>GPUs</h2>\n", to);
	mt_html_head(to, "||n|n|n", "", "Name", "Allocated", "Reserved", "Memory");
	for (size_t i = 0; i < MT_DEVICES_COUNT; i++)
		if (last[i])
			write_device(last[i], device_line(recording->root, i), to);
	fputs("</tbody></table>\n", to);
	fputs("</section>\n", to);
}

/* ---- cleanups ---- */

#define SHOWN_MAX 60u /* rows; of more, those that returned most */

struct rows {
	const struct mt_recording_mark **list;
	size_t count;
	bool has_gc, has_gpu;
};

static uint64_t cost_ns(const struct mt_recording_mark *mark)
{
	return mt_sat_sub(mark->duration_ns, mark->gc_wait_ns);
}

/* A late collection is told with the cleanup that asked for it. The caller frees the list. */
static struct rows list_cleanups(const struct mt_recording *recording)
{
	struct rows rows = {.list = mt_error_check_memory(
				    calloc(recording->marks_count + 1, sizeof(*rows.list)))};

	for (size_t i = 0; i < recording->marks_count; i++) {
		const struct mt_recording_mark *mark = &recording->marks[i];

		if (mark->kind != MT_RECORDING_CLEANUP || mark->is_late)
			continue;
		rows.list[rows.count++] = mark;
		rows.has_gc |= *mark->gc != '\0';
		rows.has_gpu |= mark->gpu_freed_bytes != 0;
	}
	return rows;
}

/* ---- which are shown ---- */

static int by_freed(const void *a, const void *b)
{
	const struct mt_recording_mark *x = *(const struct mt_recording_mark *const *)a,
				       *y = *(const struct mt_recording_mark *const *)b;
	uint64_t p = x->freed_bytes + x->gpu_freed_bytes, q = y->freed_bytes + y->gpu_freed_bytes;

	return (p < q) - (p > q);
}

static int by_time(const void *a, const void *b)
{
	const struct mt_recording_mark *x = *(const struct mt_recording_mark *const *)a,
				       *y = *(const struct mt_recording_mark *const *)b;

	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static void write_sums(const struct rows *rows, FILE *to)
{
	uint64_t freed = 0, cost = 0, longest = 0, wait_ns = 0;

	for (size_t i = 0; i < rows->count; i++) {
		freed += rows->list[i]->freed_bytes;
		cost += cost_ns(rows->list[i]);
		longest = mt_max_u64(longest, cost_ns(rows->list[i]));
		wait_ns += rows->list[i]->gc_wait_ns;
	}
	fputs("<p>", to);
	mt_html_textf(to,
		      "%s returned %s in all and cost %s without the page faults after them, the "
		      "longest %s.",
		      mt_text_counted(rows->count, "cleanup", "cleanups").text,
		      mt_text_bytes(freed).text, mt_text_ns(cost).text, mt_text_ns(longest).text);
	if (wait_ns)
		mt_html_textf(to, " They waited %s for Python's main thread.",
			      mt_text_ns(wait_ns).text);
	if (rows->count > SHOWN_MAX)
		mt_html_textf(to, " Shown are the %u that returned most.", SHOWN_MAX);
	fputs("</p>\n", to);
}

static void write_row(const struct rows *rows, const struct mt_recording_mark *mark, FILE *to)
{
	uint64_t before = mark->rss_bytes[MT_RECORDING_BEFORE],
		 after = mark->rss_bytes[MT_RECORDING_AFTER];

	fputs("<tr>", to);
	mt_html_cell(to, "<td class=\"n\">", mt_text_clock(mark->time_ns).text);
	mt_html_cell(to, "<td class=\"w\">", *mark->reason ? mark->reason : "?");
	mt_html_cell(to, "<td class=\"more\">", mt_stats_word_level(mark->level));
	mt_html_cell(to, "<td class=\"n more\">",
		     before == MT_RECORDING_UNKNOWN ? "-" : mt_text_bytes(before).text);
	mt_html_cell(to, "<td class=\"n more\">",
		     after == MT_RECORDING_UNKNOWN ? "-" : mt_text_bytes(after).text);
	mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(mark->freed_bytes).text);
	if (rows->has_gpu)
		mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(mark->gpu_freed_bytes).text);
	mt_html_cell(to, "<td class=\"n\">", mt_text_ns(cost_ns(mark)).text);
	mt_html_cell(to, "<td class=\"n\">",
		     mark->gc_wait_ns >= 1000000 ? mt_text_ns(mark->gc_wait_ns).text : "-");
	if (rows->has_gc)
		mt_html_cell(to, "<td class=\"more\">", *mark->gc ? mark->gc : "-");
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
		write_row(rows, rows->list[i], to);
	fputs("</tbody></table>\n", to);
}

void mt_report_cleanups(const struct mt_report *report, FILE *to)
{
	struct rows rows = list_cleanups(report->recording);
	bool is_known = report->facts->asleep ||
			(report->look ? report->target != NULL : report->facts->awake);

	fputs("<section id=\"cleanups\">\n<h2>Cleanups</h2>\n", to);
	if (rows.count) {
		write_sums(&rows, to);
		write_table(&rows, to);
	} else if (!is_known) {
		write_unknown("Of them", report, to);
	} else {
		fputs("<p class=\"note\">none</p>\n", to);
	}
	if (report->target && mt_cleanup_kept_since_ns(&report->target->file))
		mt_html_textf(to, "%" PRIu64 " older ones are not kept.",
			      report->target->file.head.cleanups_count - MT_CLEANUPS_COUNT);
	fputs("</section>\n", to);
	free(rows.list);
}
