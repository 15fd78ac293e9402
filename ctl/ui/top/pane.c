#include "ctl/ui/top/pane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics/area_chart.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"
#include "ctl/ui/top/history.h"
#include "ctl/ui/top/row.h"

#define CANVAS_ROWS_MIN 20  /* of a canvas with room for a pane */
#define FACTS_FROM      110 /* columns of a canvas with figures beside the chart */
#define FACTS_CELLS     44
#define LABEL_CELLS     12

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
		       ? "asleep: too small for the shim to act; all of it counts as other"
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
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		enum mt_memory_part part = (enum mt_memory_part)i;

		at.column = mt_cells_put_glyph(canvas, at, (enum mt_cell_style)(MT_STYLE_LIVE + i),
					       mt_area_part_glyph(canvas, part));
		at.column = mt_cells_put_figure(canvas, at, mt_memory_part_word(part),
						mt_short_bytes(own->parts.bytes[i]).text);
	}
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
	snprintf(value, sizeof(value), "%.16s  %.8s %%", mt_text_bytes(own->parts.bytes[part]).text,
		 mt_short_percent(mt_stats_percent(own->parts.bytes[part], own->rss_bytes)).text);
	if (facts->row >= facts->end)
		return;
	add_fact(facts, label, value);
	mt_cells_put_glyph(facts->canvas, at, (enum mt_cell_style)(MT_STYLE_LIVE + (int)part),
			   mt_area_part_glyph(facts->canvas, part));
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
		snprintf(value, sizeof(value), "%.8s %% of the time, up to %u %%",
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

void mt_top_pane_draw_body(struct mt_cells *canvas, struct mt_top_pane_area area,
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

void mt_top_pane_draw(struct mt_cells *canvas, struct mt_top_pane_area area,
		      const struct mt_top_row *process, uint64_t now_ns)
{
	if (area.end <= area.row)
		return;
	draw_title(canvas, area.row++, process, now_ns);
	mt_top_pane_draw_body(canvas, area, process, now_ns);
}
