#include "ctl/ui/top/pane.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics/scale.h"
#include "ctl/output/error.h"
#include "ctl/ui/top/canvas.h"
#include "ctl/ui/top/compact_number.h"
#include "ctl/ui/top/history.h"
#include "ctl/ui/top/row.h"
#include "ctl/ui/top/sparkline.h"

/* ---- area chart ---- */

/* Resident memory over time as stacked areas, one for each of its four parts, with a scale in
 * bytes, cleanups as letters on the time axis, and times of day below it. A column is the largest
 * RSS of its time. Without colours or block characters the areas are filled with the characters of
 * the parts. Pure, but for memory and the time zone. */
/* rows for the time axis and its labels, and the fewest rows with areas above them */
#define MT_TOP_CHART_ROWS_MIN 4

struct mt_top_area_chart {
	const struct mt_top_history *history;
	const struct mt_top_marks *marks; /* NULL: not known */
	uint64_t now_ns;                  /* CLOCK_REALTIME: the right edge */
};

#define SCALE_CELLS   9 /* labels of the scale, with its line */
#define FOOT_ROWS     2 /* the time axis and its labels */
#define COLUMNS_MIN   10
#define ROWS_PER_TICK 4 /* at least, where the chart is that high */
#define LABEL_MAX     8 /* "14:03:30" */
#define LABEL_GAP     2
#define MINUTE        60.0
#define EIGHTHS       8

/* The area of the curves on the canvas, and what it spans. */
struct frame {
	struct mt_top_canvas *canvas;
	int left, end, top, rows;
	uint64_t now_ns, span_ns;
	double full_bytes;
};

static void put(const struct frame *frame, int row, int column, enum mt_top_style style,
		wchar_t glyph)
{
	mt_top_put_glyph(frame->canvas, (struct mt_top_at){row, column, 0}, style, glyph);
}

/* ---- the areas ---- */

/* The tops of the parts, in eighths of a row; the last one is the top of all. */
struct stack {
	int tops[MT_PARTS_COUNT];
};

static struct stack stack_of(const struct frame *frame, const struct mt_top_point *point)
{
	struct stack stack;
	double bytes = 0;

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		bytes += (double)point->parts.bytes[i];
		stack.tops[i] = (int)lround(bytes / frame->full_bytes * frame->rows * EIGHTHS);
	}
	/* Memory is visible, however little it is. */
	if (bytes > 0 && stack.tops[MT_PART_OTHER] == 0)
		stack.tops[MT_PART_OTHER] = 1;
	return stack;
}

/* What lies in a cell, `up` rows above the axis: how many eighths of it each part fills. */
struct content {
	int eighths[MT_PARTS_COUNT], filled;
};

static struct content content_of(const struct stack *stack, int up)
{
	struct content content = {.filled = 0};
	int low = up * EIGHTHS, high = low + EIGHTHS;

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		int top = stack->tops[i] < high ? stack->tops[i] : high;

		content.eighths[i] = top > low ? top - low : 0;
		content.filled += content.eighths[i];
		low += content.eighths[i];
	}
	return content;
}

/* The part that fills the most, of those from `from` on. */
static int largest_part(const struct content *content, int from)
{
	int largest = from;

	for (int i = from + 1; i < MT_PARTS_COUNT; i++)
		if (content->eighths[i] > content->eighths[largest])
			largest = i;
	return largest;
}

/* A cell has two colours, and none of them where a part of it is empty. So a cell that is full
 * shows its lowest part and the largest one above that; the others show their largest part. */
static void draw_blocks(const struct frame *frame, const struct content *content, int row,
			int column)
{
	int low = 0, high;

	while (!content->eighths[low])
		low++;
	if (content->filled < EIGHTHS || content->eighths[low] == EIGHTHS) {
		put(frame, row, column,
		    (enum mt_top_style)(MT_STYLE_LIVE + largest_part(content, 0)),
		    mt_top_level_glyph(true, content->filled));
		return;
	}
	high = largest_part(content, low + 1);
	put(frame, row, column, mt_top_style_of_parts(low, high),
	    mt_top_level_glyph(true, content->eighths[low]));
}

static void draw_cell(const struct frame *frame, const struct stack *stack, int up, int column)
{
	const struct content content = content_of(stack, up);
	int row = frame->top + frame->rows - 1 - up, part = largest_part(&content, 0);

	if (!content.filled)
		return;
	if (frame->canvas->unicode && frame->canvas->coloured)
		draw_blocks(frame, &content, row, column);
	else if (content.filled >= EIGHTHS / 2 || up == 0)
		put(frame, row, column, (enum mt_top_style)(MT_STYLE_LIVE + part),
		    (wchar_t)mt_memory_part_glyph((enum mt_memory_part)part));
}

static void draw_areas(const struct frame *frame, const struct mt_top_point *points)
{
	for (int column = frame->left; column < frame->end; column++) {
		const struct mt_top_point *point = &points[column - frame->left];
		const struct stack stack = stack_of(frame, point);

		for (int up = 0; up < frame->rows; up++)
			draw_cell(frame, &stack, up, column);
	}
}

/* ---- the scale ---- */

static void draw_scale(const struct frame *frame, const struct mt_ticks *ticks)
{
	bool unicode = frame->canvas->unicode;

	for (int row = frame->top; row < frame->top + frame->rows; row++)
		put(frame, row, frame->left - 1, MT_STYLE_DIM, unicode ? L'\u2502' : L'|');
	for (size_t i = 0; i < ticks->count; i++) {
		int up = (int)lround(ticks->list[i].at / frame->full_bytes * frame->rows),
		    row = frame->top + frame->rows - up;
		const struct mt_top_at at = {row, frame->left - SCALE_CELLS, frame->left - 1};

		mt_top_put_right(frame->canvas, at, MT_STYLE_LABEL, ticks->list[i].label);
		if (up)
			put(frame, row, frame->left - 1, MT_STYLE_DIM, unicode ? L'\u2524' : L'+');
	}
}

/* ---- the time axis ---- */

static int column_of(const struct frame *frame, double seconds)
{
	int width = frame->end - frame->left,
	    column = (int)(seconds / ((double)frame->span_ns / 1e9) * width);

	return frame->left + (column < width ? column : width - 1);
}

/* Whether a tick is labelled. Where there is no room for all labels every second, third, ... tick
 * has one: below a minute so that a minute is a multiple of their distance. */
static bool is_labelled(const struct frame *frame, const struct mt_ticks *ticks, size_t index,
			double origin_s)
{
	double step_s, stride;

	if (ticks->count < 2)
		return true;
	step_s = ticks->list[1].at - ticks->list[0].at;
	stride = ceil((LABEL_MAX + LABEL_GAP) * ((double)frame->span_ns / 1e9) / step_s /
		      (frame->end - frame->left));
	while (stride * step_s < MINUTE && fmod(MINUTE, stride * step_s) > 0)
		stride++;
	return fmod(round((origin_s + ticks->list[index].at) / step_s), stride) == 0;
}

static void draw_times(const struct frame *frame, double origin_s)
{
	int row = frame->top + frame->rows;
	struct mt_ticks ticks;

	mt_ticks_clock(origin_s, 0, (double)frame->span_ns / 1e9, &ticks);
	for (size_t i = 0; i < ticks.count; i++) {
		int column = column_of(frame, ticks.list[i].at),
		    length = (int)strlen(ticks.list[i].label), first = column - length / 2;

		if (!is_labelled(frame, &ticks, i, origin_s))
			continue;
		put(frame, row, column, MT_STYLE_DIM, frame->canvas->unicode ? L'\u2534' : L'+');
		if (first >= frame->left - 1 && first + length <= frame->end + 1)
			mt_top_put(frame->canvas, (struct mt_top_at){row + 1, first, 0},
				   MT_STYLE_LABEL, ticks.list[i].label);
	}
}

/* Returns whether the mark is drawn over the glyph that is there. */
static bool is_heavier(char letter, wchar_t before)
{
	const char *was = before < 0x80 ? strchr(MT_TOP_MARK_LETTERS, (int)before) : NULL;

	return !was || !*was || strchr(MT_TOP_MARK_LETTERS, letter) >= was;
}

static void draw_mark(const struct frame *frame, const struct mt_top_mark *mark, uint64_t start_ns)
{
	int row = frame->top + frame->rows,
	    column = column_of(frame, (double)(mark->time_ns - start_ns) / 1e9);
	enum mt_top_style style = mark->is_for_pressure ? MT_STYLE_WARN
				  : mark->has_freed     ? MT_STYLE_GOOD
							: MT_STYLE_PLAIN;

	if (is_heavier(mark->letter, mt_top_cell(frame->canvas, row, column)->glyph))
		put(frame, row, column, style, (wchar_t)mark->letter);
}

/* The time of which cleanups are not kept is dotted. */
static void draw_axis(const struct frame *frame, const struct mt_top_marks *marks)
{
	bool unicode = frame->canvas->unicode;
	int row = frame->top + frame->rows;
	uint64_t start_ns = frame->now_ns > frame->span_ns ? frame->now_ns - frame->span_ns : 0,
		 kept_ns = marks ? marks->kept_since_ns : 0;
	int kept_from = kept_ns > start_ns ? column_of(frame, (double)(kept_ns - start_ns) / 1e9)
					   : frame->left;

	put(frame, row, frame->left - 1, MT_STYLE_DIM, unicode ? L'\u2514' : L'+');
	for (int column = frame->left; column < frame->end; column++)
		put(frame, row, column, MT_STYLE_DIM,
		    column < kept_from ? (unicode ? L'\u2508' : L'.')
		    : unicode          ? L'\u2500'
				       : L'-');
	draw_times(frame, (double)start_ns / 1e9);
	for (size_t i = 0; marks && i < marks->count; i++)
		if (marks->list[i].time_ns >= start_ns && marks->list[i].time_ns <= frame->now_ns)
			draw_mark(frame, &marks->list[i], start_ns);
}

/* ---- all ---- */

/* Ticks are a whole number of rows apart, so that their distances look the same. */
static void choose_scale(struct frame *frame, double most, struct mt_ticks *out)
{
	int wanted = frame->rows / ROWS_PER_TICK, steps;

	mt_ticks_bytes(most, wanted > 1 ? (size_t)wanted : 1, out);
	steps = (int)out->count - 1;
	frame->full_bytes = out->list[steps].at;
	if (steps <= frame->rows)
		frame->full_bytes *= (double)frame->rows / (frame->rows / steps * steps);
}

static double most_of(const struct mt_top_point *points, size_t count)
{
	double most = 0;

	for (size_t i = 0; i < count; i++)
		most = fmax(most, (double)points[i].rss_bytes);
	return most;
}

/* Draws in `rows` rows from at.row on, from at.column to at.end. Draws nothing in fewer than
 * MT_TOP_CHART_ROWS_MIN rows, or where the scale leaves no room. */
static void top_area_chart_draw(struct mt_top_canvas *canvas, struct mt_top_at at, int rows,
				const struct mt_top_area_chart *chart)
{
	struct frame frame = {.canvas = canvas,
			      .left = at.column + SCALE_CELLS,
			      .end = at.end,
			      .top = at.row,
			      .rows = rows - FOOT_ROWS,
			      .now_ns = chart->now_ns,
			      .span_ns = mt_top_history_span(chart->history, chart->now_ns)};
	struct mt_top_point *points;
	struct mt_ticks ticks;
	size_t count;

	if (rows < MT_TOP_CHART_ROWS_MIN || frame.end - frame.left < COLUMNS_MIN)
		return;
	count = (size_t)(frame.end - frame.left);
	points = mt_error_check_memory(calloc(count, sizeof(*points)));
	mt_top_history_resample(chart->history, chart->now_ns, points, count);
	choose_scale(&frame, most_of(points, count), &ticks);
	draw_areas(&frame, points);
	draw_scale(&frame, &ticks);
	draw_axis(&frame, chart->marks);
	free(points);
}

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
			 mt_top_change(last->before_bytes, last->after_bytes).text,
			 mt_top_ago(now_ns, last->time_ns).text,
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

static void draw_line(struct mt_top_canvas *canvas, int row, const struct mt_top_row *process)
{
	const struct mt_process_tree_sums *own = &process->own;
	struct mt_top_at at = {row, 1, 0};

	at.column = mt_top_put_figure(canvas, at, "RSS", mt_top_bytes(own->rss_bytes).text);
	if (why_unknown(process)) {
		mt_top_put(canvas, at,
			   process->state == MT_PROCESS_ASLEEP ? MT_STYLE_DIM : MT_STYLE_BAD,
			   why_unknown(process));
		return;
	}
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		enum mt_memory_part part = (enum mt_memory_part)i;

		at.column = mt_top_put_glyph(canvas, at, (enum mt_top_style)(MT_STYLE_LIVE + i),
					     mt_top_part_glyph(canvas, part));
		at.column = mt_top_put_figure(canvas, at, mt_memory_part_word(part),
					      mt_top_bytes(own->parts.bytes[i]).text);
	}
	if (process->figures.peak_bytes)
		mt_top_put_figure(canvas, at, "peak",
				  mt_top_bytes(process->figures.peak_bytes).text);
}

/* ---- figures beside the chart ---- */

struct facts {
	struct mt_top_canvas *canvas;
	int row, end, column;
};

/* A blank label leaves a row empty. */
static void add_fact(struct facts *facts, const char *label, const char *value)
{
	struct mt_top_at at = {facts->row, facts->column, 0};

	if (facts->row >= facts->end)
		return;
	facts->row++;
	mt_top_put(facts->canvas, at, MT_STYLE_LABEL, label);
	at.column += LABEL_CELLS;
	mt_top_put(facts->canvas, at, MT_STYLE_BOLD, value);
}

static void add_part(struct facts *facts, const struct mt_process_tree_sums *own,
		     enum mt_memory_part part)
{
	char label[24], value[40];
	struct mt_top_at at = {facts->row, facts->column, 0};

	snprintf(label, sizeof(label), "  %s", mt_memory_part_word(part));
	snprintf(value, sizeof(value), "%.16s  %.8s %%", mt_text_bytes(own->parts.bytes[part]).text,
		 mt_top_percent(mt_stats_percent(own->parts.bytes[part], own->rss_bytes)).text);
	if (facts->row >= facts->end)
		return;
	add_fact(facts, label, value);
	mt_top_put_glyph(facts->canvas, at, (enum mt_top_style)(MT_STYLE_LIVE + (int)part),
			 mt_top_part_glyph(facts->canvas, part));
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
		 mt_top_percent(mt_stats_percent(figures->limit_used_bytes, figures->limit_bytes))
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
			 mt_top_percent(process->budget_used_pct).text,
			 (unsigned)process->budget_pct);
	else
		snprintf(value, sizeof(value), "%.8s %% of the time",
			 mt_top_percent(process->budget_used_pct).text);
	add_fact(facts, "cost", value);
}

/* ---- the pane ---- */

void mt_top_pane_draw_body(struct mt_top_canvas *canvas, struct mt_top_pane_area area,
			   const struct mt_top_row *process, uint64_t now_ns)
{
	const struct mt_top_area_chart chart = {process->history, process->marks, now_ns};
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
	top_area_chart_draw(canvas, (struct mt_top_at){area.row, 0, end}, area.end - area.row,
			    &chart);
}

/* The process; on a narrow canvas also what its cleanups have brought. */
static void draw_title(struct mt_top_canvas *canvas, int row, const struct mt_top_row *process,
		       uint64_t now_ns)
{
	bool is_wide = canvas->columns >= FACTS_FROM;
	char text[320], last[64];
	struct mt_top_at at = {row, 2, 0};

	for (int column = 0; column < canvas->columns; column++)
		mt_top_put_glyph(canvas, (struct mt_top_at){row, column, 0}, MT_STYLE_DIM,
				 canvas->unicode ? L'\u2500' : L'-');
	snprintf(text, sizeof(text), " %d %.*s ", (int)process->process.pid, is_wide ? 120 : 24,
		 process->title);
	at.column = mt_top_put(canvas, at, MT_STYLE_BOLD, text) + 1;
	if (is_wide || why_unknown(process))
		return;
	write_last(process, now_ns, last, sizeof(last));
	snprintf(text, sizeof(text), " returned %.8s, last %s ",
		 mt_top_bytes(process->own.purged_bytes).text, last);
	mt_top_put(canvas, at, MT_STYLE_PLAIN, text);
}

void mt_top_pane_draw(struct mt_top_canvas *canvas, struct mt_top_pane_area area,
		      const struct mt_top_row *process, uint64_t now_ns)
{
	if (area.end <= area.row)
		return;
	draw_title(canvas, area.row++, process, now_ns);
	mt_top_pane_draw_body(canvas, area, process, now_ns);
}
