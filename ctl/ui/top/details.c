/* ctl/ui/top/details.c -- see details.h. */
#include "ctl/ui/top/details.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/setting.h"
#include "ctl/process/target.h"
#include "ctl/ui/top/compact_number.h"
#include "ctl/ui/top/sparkline.h"

#define CHART_ROWS  6
#define CHART_LEAST 18 /* rows of a canvas that has room for the chart */

void mt_top_details_read(struct mt_top_details *details)
{
	enum mt_err error;

	if (!details->file)
		details->file = mt_error_check_memory(malloc(sizeof(*details->file)));
	error = mt_target_read(&details->row.process, details->file, &details->why);
	/* What was read before stays: the process may have ended. */
	details->is_known |= !error;
}

/* ---- figures ---- */

static void add_fact(struct mt_top_page *page, const char *label, const char *text)
{
	if (*text)
		mt_top_page_add(page, MT_STYLE_PLAIN, " %-10s %s", label, text);
}

static void add_facts(struct mt_top_page *page, const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;
	const struct mt_stats_snapshot *now = &head->snapshot;
	char text[300];

	snprintf(text, sizeof(text), "%s, %s (mode %s), shim %s", head->allocator, head->evidence,
		 head->mode, head->shim_version);
	add_fact(page, "allocator", text);
	add_fact(page, "conf", head->conf);
	add_fact(page, "python", head->python);
	add_fact(page, "cuda", head->cuda);
	if (*head->rank)
		add_fact(page, "rank", head->rank);
	snprintf(text, sizeof(text), "%s, %s of %s used, %.1f %% (%s)",
		 mt_stats_word_pressure_level(now->pressure_level),
		 mt_text_bytes(now->pressure_used_bytes).text,
		 mt_text_bytes(now->pressure_limit_bytes).text,
		 mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		 *head->limit_source ? head->limit_source : "?");
	if (now->pressure_limit_bytes)
		add_fact(page, "pressure", text);
	if (head->ooms_count + head->alarms_count) {
		snprintf(text, sizeof(text),
			 "%.40s out-of-memory errors, %.40s times MT_RSS_LIMIT_MB: `mtctl stat %d "
			 "--oom`",
			 mt_text_count(head->ooms_count).text,
			 mt_text_count(head->alarms_count).text, (int)head->pid);
		add_fact(page, "reports", text);
	}
}

static void fill_figures(struct mt_top_page *page, const struct mt_stats_file *file)
{
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_fields(&count);

	add_facts(page, file);
	mt_top_page_add(page, MT_STYLE_HEADING, " %-26s %14s  %s", "FIGURE", "VALUE", "MEANING");
	for (size_t i = 0; i < count; i++)
		if (strncmp(fields[i].name, "gpu_", 4) != 0 || mt_stats_file_uses_cuda(&file->head))
			mt_top_page_add(
				page, MT_STYLE_PLAIN, " %-26s %14s  %s", fields[i].name,
				mt_text_field(fields[i].name,
					      mt_stats_file_value(&file->head.snapshot, &fields[i]))
					.text,
				fields[i].help);
}

/* ---- settings ---- */

static void fill_settings(struct mt_top_page *page, const struct mt_stats_file *file)
{
	mt_top_page_add(page, MT_STYLE_HEADING, " %-20s %-14s %-12s %-5s %s", "SETTING", "VALUE",
			"FROM", "LIVE", "MEANING");
	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];
		const struct mt_setting *known = mt_setting_find(setting->name);
		bool is_default = strcmp(setting->origin, "default") == 0;

		mt_top_page_add(page, is_default ? MT_STYLE_PLAIN : MT_STYLE_BOLD,
				" %-20s %-14s %-12s %-5s %s", setting->name, setting->value,
				setting->origin, known && known->live ? "yes" : "no",
				known ? known->help : "");
	}
}

/* ---- the screen ---- */

static void say_unknown(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (details->row.state == MT_PROCESS_ASLEEP)
		mt_top_page_add(page, MT_STYLE_PLAIN,
				" asleep: it holds less than MT_MIN_MB of anonymous memory, and "
				"says nothing of itself yet");
	else
		mt_top_page_add(page, MT_STYLE_BAD, " %s", details->why.text);
}

void mt_top_details_fill(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (!details->is_known)
		say_unknown(details, page);
	else if (details->tab == MT_TAB_FIGURES)
		fill_figures(page, details->file);
	else if (details->tab == MT_TAB_RECORDS)
		mt_top_page_records(page, details->file);
	else if (details->tab == MT_TAB_SETTINGS)
		fill_settings(page, details->file);
	else
		mt_top_page_devices(page, details->file);
}

static void draw_tabs(const struct mt_top_details *details, struct mt_top_canvas *canvas)
{
	static const char *const titles[] = {
#define X(id, title) title,
		MT_TOP_TABS(X)
#undef X
	};
	struct mt_top_at at = {1, 1, 0};
	char text[40];

	for (size_t i = 0; i < MT_TABS_COUNT; i++) {
		bool is_shown = details->tab == (enum mt_top_tab)i;

		snprintf(text, sizeof(text), " %zu %s ", i + 1, titles[i]);
		at.column = mt_top_put(canvas, at, is_shown ? MT_STYLE_SORTED : MT_STYLE_HEADING,
				       text) +
			    1;
	}
}

static void draw_title(const struct mt_top_details *details, struct mt_top_canvas *canvas)
{
	char text[256];

	snprintf(text, sizeof(text), " %d %s%s  %s", (int)details->row.process.pid,
		 details->row.process.comm, details->has_ended ? " (has ended)" : "",
		 details->row.process.command);
	mt_top_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_top_put(canvas, (struct mt_top_at){0, 0, 0}, MT_STYLE_TITLE, text);
}

static int put_legend(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
		      const char *text)
{
	at.column = mt_top_put_glyph(canvas, at, style,
				     canvas->unicode          ? L'\u25a0'
				     : style == MT_STYLE_LIVE ? L'#'
				     : style == MT_STYLE_IDLE ? L'~'
							      : L'=') +
		    1;
	return mt_top_put(canvas, at, MT_STYLE_PLAIN, text) + 2;
}

/* Resident memory in layers; answers the row behind it. */
static int draw_chart(const struct mt_top_details *details, struct mt_top_canvas *canvas, int row,
		      uint64_t now_ns)
{
	size_t count = (size_t)canvas->columns - 2;
	struct mt_top_point *points = mt_error_check_memory(calloc(count, sizeof(*points)));
	struct mt_top_at at = {row + 1, 1, canvas->columns - 1};
	uint64_t full;
	char text[64];

	mt_top_history_spread(details->row.history, now_ns, points, count);
	full = mt_top_draw_chart(canvas, at, CHART_ROWS, points);
	free(points);
	snprintf(text, sizeof(text), "RSS, 0 to %.8s, last %.8s", mt_top_bytes(full).text,
		 mt_top_ago(mt_top_history_span(details->row.history, now_ns), 0).text);
	at.row = row;
	at.column = mt_top_put(canvas, at, MT_STYLE_LABEL, text) + 2;
	at.column = put_legend(canvas, at, MT_STYLE_LIVE, "live");
	at.column = put_legend(canvas, at, MT_STYLE_IDLE, "idle");
	put_legend(canvas, at, MT_STYLE_REST, "rest");
	return row + 1 + CHART_ROWS;
}

void mt_top_details_draw(struct mt_top_details *details, struct mt_top_canvas *canvas, int end,
			 uint64_t now_ns)
{
	struct mt_top_page page = {0};
	struct mt_top_at from = {2, 0, end};

	draw_title(details, canvas);
	draw_tabs(details, canvas);
	if (details->tab == MT_TAB_FIGURES && canvas->rows >= CHART_LEAST && !details->has_ended)
		from.row = draw_chart(details, canvas, from.row, now_ns);
	mt_top_details_fill(details, &page);
	mt_top_page_draw(&page, canvas, from, &details->first);
	mt_top_page_free(&page);
}
