#include "ctl/ui/top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/figures/figures.h"
#include "ctl/figures/setting.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"

#define CANVAS_ROWS_MIN 20  /* of a canvas with room for a pane */
#define FACTS_FROM      110 /* columns of a canvas with figures beside the chart */
#define FACTS_CELLS     44
#define LABEL_CELLS     12
#define FACT_CELLS      12 /* of the details: a label, and the blanks around it */

int mt_top_pane_rows(int canvas_rows, int spare_rows)
{
	int share = canvas_rows * 2 / 5, most = canvas_rows * 3 / 5;

	if (canvas_rows < CANVAS_ROWS_MIN)
		return 0;
	if (spare_rows < share)
		return share;
	return spare_rows < most ? spare_rows : most;
}

/* ---- figures ---- */

/* "-290M 4s ago: idle" */
static void write_last(const struct mt_top_row *process, uint64_t now_ns, char *out,
		       size_t out_bytes)
{
	const struct mt_top_cleanup *last = &process->last;

	if (!last->time_ns)
		snprintf(out, out_bytes, "none");
	else
		snprintf(out, out_bytes, "%.8s %.8s ago: %.20s",
			 mt_short_change(last->before_bytes, last->after_bytes).text,
			 mt_short_ago(now_ns, last->time_ns).text,
			 mt_stats_word_reason(last->reason));
}

/* Why nothing but RSS is known of it; NULL: more is known. */
static const char *why_unknown(const struct mt_top_row *process)
{
	if (process->state == MT_PROCESS_AWAKE)
		return NULL;
	return process->state == MT_PROCESS_ASLEEP
		       ? "asleep: the library keeps no figures of it; all of it counts as other"
		       : process->why.text;
}

/* ---- a line above the chart ---- */

static void draw_line(struct mt_cells *canvas, int row, const struct mt_top_row *process)
{
	const struct mt_process_tree_sums *own = &process->own;
	struct mt_cell_place at = {row, 1, 0};

	at.column = mt_cells_put_figure(canvas, at, "RSS", mt_short_bytes(own->rss_bytes).text);
	if (why_unknown(process)) {
		mt_cells_put(canvas, at,
			     process->state == MT_PROCESS_ASLEEP ? MT_STYLE_DIM : MT_STYLE_BAD,
			     why_unknown(process));
		return;
	}
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		at.column = mt_top_put_part(canvas, at, own, (enum mt_memory_part)i);
	if (process->figures.peak_bytes)
		mt_cells_put_figure(canvas, at, "peak",
				    mt_short_bytes(process->figures.peak_bytes).text);
}

/* ---- figures beside the chart ---- */

struct facts {
	struct mt_cells *canvas;
	int row, end, column;
};

/* A blank label leaves a row empty. */
static void add_fact(struct facts *facts, const char *label, const char *value)
{
	struct mt_cell_place at = {facts->row, facts->column, 0};

	if (facts->row >= facts->end)
		return;
	facts->row++;
	mt_cells_put(facts->canvas, at, MT_STYLE_LABEL, label);
	at.column += LABEL_CELLS;
	mt_cells_put(facts->canvas, at, MT_STYLE_BOLD, value);
}

static void add_part(struct facts *facts, const struct mt_process_tree_sums *own,
		     enum mt_memory_part part)
{
	char label[24], value[40];
	struct mt_cell_place at = {facts->row, facts->column, 0};

	snprintf(label, sizeof(label), "  %s", mt_memory_part_word(part));
	snprintf(value, sizeof(value), "-");
	if (own->parts.is_known || part >= MT_PART_FILES)
		snprintf(value, sizeof(value), "%.16s  %.8s %%",
			 mt_text_bytes(own->parts.bytes[part]).text,
			 mt_short_percent(mt_stats_percent(own->parts.bytes[part], own->rss_bytes))
				 .text);
	if (facts->row >= facts->end)
		return;
	add_fact(facts, label, value);
	mt_cells_put_glyph(facts->canvas, at, (enum mt_cell_style)(MT_STYLE_LIVE + (int)part),
			   mt_memory_part_cell(facts->canvas, part));
}

static void add_memory(struct facts *facts, const struct mt_top_row *process)
{
	const struct mt_top_figures *figures = &process->figures;
	char value[64];

	add_fact(facts, "RSS", mt_text_bytes(process->own.rss_bytes).text);
	if (why_unknown(process)) {
		add_fact(facts, mt_process_state_word(process->state), "");
		return;
	}
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		add_part(facts, &process->own, (enum mt_memory_part)i);
	add_fact(facts, "peak", mt_text_bytes(figures->peak_bytes).text);
	snprintf(value, sizeof(value), "%.16s  %.8s %% used",
		 mt_text_bytes(figures->limit_bytes).text,
		 mt_short_percent(mt_stats_percent(figures->limit_used_bytes, figures->limit_bytes))
			 .text);
	add_fact(facts, "limit", figures->limit_bytes ? value : "none is known");
}

static void add_cleanups(struct facts *facts, const struct mt_top_row *process, uint64_t now_ns)
{
	const struct mt_top_figures *figures = &process->figures;
	char value[64];

	if (why_unknown(process))
		return;
	add_fact(facts, "returned", mt_text_bytes(process->own.purged_bytes).text);
	snprintf(value, sizeof(value), "%.14s, %.10s light, %.10s heavy",
		 mt_text_counted(figures->purge_count, "purge", "purges").text,
		 mt_text_count(figures->light_count).text,
		 mt_text_count(figures->heavy_count).text);
	add_fact(facts, "  by", value);
	write_last(process, now_ns, value, sizeof(value));
	add_fact(facts, "last", value);
	if (process->budget_pct)
		snprintf(value, sizeof(value), "%.8s %% of the time, budget %u %%",
			 mt_short_percent(process->budget_used_pct).text,
			 (unsigned)process->budget_pct);
	else
		snprintf(value, sizeof(value), "%.8s %% of the time",
			 mt_short_percent(process->budget_used_pct).text);
	add_fact(facts, "cost", value);
}

/* ---- the pane ---- */

struct window {
	const struct mt_top_history *history;
	uint64_t now_ns;
};

/* A column is the largest RSS of its time. */
static void read_columns(const void *data, struct mt_memory_parts *out, size_t count)
{
	const struct window *window = data;
	struct mt_top_point *points = mt_error_check_memory(calloc(count, sizeof(*points)));

	mt_top_history_resample(window->history, window->now_ns, points, count);
	for (size_t i = 0; i < count; i++)
		out[i] = points[i].parts;
	free(points);
}

/* Draws the chart and the figures without a title. */
static void top_pane_draw_body(struct mt_cells *canvas, struct mt_top_area area,
			       const struct mt_top_row *process, uint64_t now_ns)
{
	uint64_t span_ns = mt_top_history_span(process->history, now_ns);
	const struct mt_top_marks *marks = process->marks;
	const struct window window = {process->history, now_ns};
	const struct mt_area_chart chart = {.start_ns = now_ns > span_ns ? now_ns - span_ns : 0,
					    .end_ns = now_ns,
					    .marks = marks ? marks->list : NULL,
					    .marks_count = marks ? marks->count : 0,
					    .kept_since_ns = marks ? marks->kept_since_ns : 0,
					    .read = read_columns,
					    .data = &window};
	bool is_wide = canvas->columns >= FACTS_FROM;
	int end = is_wide ? canvas->columns - FACTS_CELLS : canvas->columns - 1;
	struct facts facts = {canvas, area.row, area.end, end + 2};

	if (area.end <= area.row)
		return;
	if (!is_wide) {
		draw_line(canvas, area.row++, process);
	} else {
		add_memory(&facts, process);
		add_cleanups(&facts, process, now_ns);
	}
	mt_area_chart_draw(canvas, (struct mt_cell_place){area.row, 0, end}, area.end - area.row,
			   &chart);
}

/* The process; on a narrow canvas also what its cleanups have brought. */
static void draw_title(struct mt_cells *canvas, int row, const struct mt_top_row *process,
		       uint64_t now_ns)
{
	bool is_wide = canvas->columns >= FACTS_FROM;
	char text[320], last[64];
	struct mt_cell_place at = {row, 2, 0};

	for (int column = 0; column < canvas->columns; column++)
		mt_cells_put_glyph(canvas, (struct mt_cell_place){row, column, 0}, MT_STYLE_DIM,
				   canvas->unicode ? L'\u2500' : L'-');
	snprintf(text, sizeof(text), " %d %.*s ", (int)process->process.pid, is_wide ? 120 : 24,
		 process->title);
	at.column = mt_cells_put(canvas, at, MT_STYLE_BOLD, text) + 1;
	if (is_wide || why_unknown(process))
		return;
	write_last(process, now_ns, last, sizeof(last));
	snprintf(text, sizeof(text), " returned %.8s, last %s ",
		 mt_short_bytes(process->own.purged_bytes).text, last);
	mt_cells_put(canvas, at, MT_STYLE_PLAIN, text);
}

void mt_top_pane_draw(struct mt_cells *canvas, struct mt_top_area area,
		      const struct mt_top_row *process, uint64_t now_ns)
{
	if (area.end <= area.row)
		return;
	draw_title(canvas, area.row++, process, now_ns);
	top_pane_draw_body(canvas, area, process, now_ns);
}

/* ---- details ---- */

void mt_top_details_read(struct mt_top_details *details)
{
	enum mt_err error;

	if (!details->file)
		details->file = mt_error_check_memory(malloc(sizeof(*details->file)));
	error = mt_target_read(&details->row.process, details->file, &details->why);
	/* The values of an ended process stay. */
	details->is_known |= !error;
}

/* ---- figures ---- */

static void details_add_fact(struct mt_top_page *page, const char *label, const char *text)
{
	if (*text)
		mt_top_page_add(page, MT_STYLE_PLAIN, " %-*s %s", FACT_CELLS - 2, label, text);
}

static void add_facts(struct mt_top_page *page, const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;
	const struct mt_stats_snapshot *now = &head->snapshot;
	char text[300];

	snprintf(text, sizeof(text), "%s, %s (mode %s), shim %s", head->allocator, head->evidence,
		 mt_stats_word_mode(head->mode), head->shim_version);
	details_add_fact(page, "allocator", text);
	details_add_fact(page, "conf", head->conf);
	details_add_fact(page, "python", mt_stats_word_python(head->python));
	details_add_fact(page, "cuda", head->cuda);
	if (*head->rank)
		details_add_fact(page, "rank", head->rank);
	snprintf(text, sizeof(text), "%s, %s of %s used, %.1f %% (%s)",
		 mt_stats_word_pressure_level(now->pressure_level),
		 mt_text_bytes(now->pressure_used_bytes).text,
		 mt_text_bytes(now->pressure_limit_bytes).text,
		 mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		 *head->limit_source ? head->limit_source : "?");
	if (now->pressure_limit_bytes)
		details_add_fact(page, "pressure", text);
	if (head->ooms_count + head->limit_reports_count) {
		snprintf(text, sizeof(text),
			 "%.40s out-of-memory errors, %.40s times MT_RSS_LIMIT_MB: `mtctl stat %d "
			 "--oom`",
			 mt_text_count(head->ooms_count).text,
			 mt_text_count(head->limit_reports_count).text, (int)head->pid);
		details_add_fact(page, "reports", text);
	}
}

/* ---- cleanups ---- */

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

/* The newest first. */
static void fill_records(struct mt_top_page *page, const struct mt_stats_file *file)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*entries)));
	size_t count = mt_cleanup_history(file, entries);

	add_counts(page, &file->head.snapshot);
	for (size_t i = 0; i < count / 2; i++) {
		struct mt_cleanup_entry kept = entries[i];

		entries[i] = entries[count - 1 - i];
		entries[count - 1 - i] = kept;
	}
	mt_top_page_add_table(page, mt_cleanup_table(&file->head, entries, count));
	if (!count)
		mt_top_page_add(page, MT_STYLE_DIM, " no cleanup yet");
	else if (mt_cleanup_kept_since_ns(file))
		mt_top_page_add(page, MT_STYLE_DIM, " older ones are not kept");
	free(entries);
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

/* ---- devices ---- */

static void add_device(struct mt_top_page *page, const struct mt_stats_device *device)
{
	mt_top_page_add(page, MT_STYLE_HEADING,
			" GPU %" PRIu64 ": %s%s%s%s, mode %s, %s free of %s", device->ordinal,
			*device->name ? device->name : "?", *device->pci ? " (" : "", device->pci,
			*device->pci ? ")" : "", *device->mode ? device->mode : "?",
			device->free_bytes ? mt_text_bytes(device->free_bytes).text : "?",
			device->total_bytes ? mt_text_bytes(device->total_bytes).text : "?");
	mt_top_page_add_table(page, mt_device_table(device));
	if (device->process_known != 1)
		mt_top_page_add(page, MT_STYLE_DIM,
				" NVML does not say what the driver charges this process");
}

static void fill_devices(struct mt_top_page *page, const struct mt_stats_file *file)
{
	if (mt_stats_file_uses_cuda(&file->head))
		mt_top_page_add(page, MT_STYLE_PLAIN, " %s, driver %s%s",
				*file->head.cuda ? file->head.cuda : "?",
				mt_stats_word_driver(&file->head).text,
				file->head.snapshot.gpu_capturing
					? ", a stream captures into a graph"
					: "");
	for (size_t i = 0; i < file->head.devices_count && i < MT_DEVICES_COUNT; i++)
		add_device(page, &file->devices[i]);
	if (!file->head.devices_count)
		mt_top_page_add(page, MT_STYLE_DIM, " it uses no GPU");
}

/* ---- the screen ---- */

static void add_unknown(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (details->row.state == MT_PROCESS_ASLEEP)
		mt_top_page_add(page, MT_STYLE_PLAIN, " asleep: %s",
				mt_target_asleep_text(mt_target_asleep(&details->row.process)));
	else
		mt_top_page_add(page, MT_STYLE_BAD, " %s", details->why.text);
}

static void fill_page(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (!details->is_known) {
		add_unknown(details, page);
	} else if (details->tab == MT_TAB_FIGURES) {
		add_facts(page, details->file);
		mt_top_page_add_table(page, mt_process_table(&details->file->head));
	} else if (details->tab == MT_TAB_RECORDS) {
		fill_records(page, details->file);
	} else if (details->tab == MT_TAB_SETTINGS) {
		fill_settings(page, details->file);
	} else {
		fill_devices(page, details->file);
	}
}

static void draw_tabs(const struct mt_top_details *details, struct mt_cells *canvas)
{
	static const char *const titles[] = {
#define X(id, title) title,
		MT_TOP_TABS(X)
#undef X
	};
	struct mt_cell_place at = {1, 1, 0};
	char text[40];

	for (size_t i = 0; i < MT_TABS_COUNT; i++) {
		bool is_shown = details->tab == (enum mt_top_tab)i;

		snprintf(text, sizeof(text), " %zu %s ", i + 1, titles[i]);
		at.column = mt_cells_put(canvas, at, is_shown ? MT_STYLE_SORTED : MT_STYLE_HEADING,
					 text) +
			    1;
	}
}

static void details_draw_title(const struct mt_top_details *details, struct mt_cells *canvas)
{
	char text[256];

	snprintf(text, sizeof(text), " %d %s%s  %s", (int)details->row.process.pid,
		 details->row.process.comm, details->has_ended ? " (has ended)" : "",
		 details->row.process.command);
	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, text);
}

void mt_top_details_draw(struct mt_top_details *details, struct mt_cells *canvas, int end,
			 uint64_t now_ns)
{
	struct mt_top_page page = {.columns = canvas->columns - 1, .indent = FACT_CELLS};
	struct mt_cell_place from = {2, 0, end};

	details_draw_title(details, canvas);
	draw_tabs(details, canvas);
	if (details->tab == MT_TAB_FIGURES && !details->has_ended) {
		from.row += mt_top_pane_rows(canvas->rows, 0);
		top_pane_draw_body(canvas, (struct mt_top_area){2, from.row}, &details->row,
				   now_ns);
	}
	fill_page(details, &page);
	mt_top_page_draw(&page, canvas, from, &details->first);
	mt_top_page_free(&page);
}
