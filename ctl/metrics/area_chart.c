#include "ctl/metrics/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"

#define SCALE_CELLS   9 /* labels of the scale, with its line */
#define FOOT_ROWS     2 /* the time axis and its labels */
#define COLUMNS_MIN   10
#define ROWS_PER_TICK 4 /* at least, if the chart is that high */
#define LABEL_MAX     8 /* "14:03:30" */
#define LABEL_GAP     2
#define MINUTE        60.0
#define EIGHTHS       8
#define TICK_CELLS    16 /* for one label of a span */

/* The area of the curves on the grid, and what it spans. */
struct frame {
	struct mt_cells *canvas;
	const struct mt_area_chart *chart;
	int left, end, top, rows;
	double span_s, full_bytes;
};

static void put(const struct frame *frame, int row, int column, enum mt_cell_style style,
		wchar_t glyph)
{
	mt_cells_put_glyph(frame->canvas, (struct mt_cell_place){row, column, 0}, style, glyph);
}

/* ---- the areas ---- */

/* The style of a cell with `low` at its bottom and `high` above it, both of enum mt_memory_part,
 * high the greater one. */
static enum mt_cell_style style_of_pair(int low, int high)
{
	/* by the lower part and how much higher the upper one is */
	static const enum mt_cell_style pairs[MT_PARTS_COUNT][MT_PARTS_COUNT] = {
		[MT_PART_LIVE] = {MT_STYLE_LIVE, MT_STYLE_LIVE_REUSABLE, MT_STYLE_LIVE_FILES,
				  MT_STYLE_LIVE_OTHER},
		[MT_PART_REUSABLE] = {MT_STYLE_REUSABLE, MT_STYLE_REUSABLE_FILES,
				      MT_STYLE_REUSABLE_OTHER},
		[MT_PART_FILES] = {MT_STYLE_FILES, MT_STYLE_FILES_OTHER},
		[MT_PART_OTHER] = {MT_STYLE_OTHER}};

	return pairs[low][high - low];
}

/* The tops of the parts, in eighths of a row; the last one is the top of all. */
struct stack {
	int tops[MT_PARTS_COUNT];
};

static struct stack stack_of(const struct frame *frame, const struct mt_memory_parts *parts)
{
	struct stack stack;
	double bytes = 0;

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		bytes += (double)parts->bytes[i];
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

/* A cell has two colours, and none of them if a part of it is empty. So a cell that is full
 * shows its lowest part and the largest one above that; the others show their largest part. */
static void draw_blocks(const struct frame *frame, const struct content *content, int row,
			int column)
{
	int low = 0, high;

	while (!content->eighths[low])
		low++;
	if (content->filled < EIGHTHS || content->eighths[low] == EIGHTHS) {
		put(frame, row, column,
		    (enum mt_cell_style)(MT_STYLE_LIVE + largest_part(content, 0)),
		    mt_cells_level_glyph(true, content->filled));
		return;
	}
	high = largest_part(content, low + 1);
	put(frame, row, column, style_of_pair(low, high),
	    mt_cells_level_glyph(true, content->eighths[low]));
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
		put(frame, row, column, (enum mt_cell_style)(MT_STYLE_LIVE + part),
		    mt_memory_part_cell(frame->canvas, (enum mt_memory_part)part));
}

static void draw_areas(const struct frame *frame, const struct mt_memory_parts *columns)
{
	for (int column = frame->left; column < frame->end; column++) {
		const struct stack stack = stack_of(frame, &columns[column - frame->left]);

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
		const struct mt_cell_place at = {row, frame->left - SCALE_CELLS, frame->left - 1};

		mt_cells_put_right(frame->canvas, at, MT_STYLE_LABEL, ticks->list[i].label);
		if (up)
			put(frame, row, frame->left - 1, MT_STYLE_DIM, unicode ? L'\u2524' : L'+');
	}
}

/* ---- the time axis ---- */

static int column_of(const struct frame *frame, double seconds)
{
	int width = frame->end - frame->left, column = (int)(seconds / frame->span_s * width);

	return frame->left + (column < width ? column : width - 1);
}

/* Whether a tick is labelled. If there is no room for all labels every second, third, ... tick
 * has one: below a minute so that a minute is a multiple of their distance. */
static bool is_labelled(const struct frame *frame, const struct mt_ticks *ticks, size_t index,
			double origin_s)
{
	double step_s, stride;

	if (ticks->count < 2)
		return true;
	step_s = ticks->list[1].at - ticks->list[0].at;
	stride =
		ceil((LABEL_MAX + LABEL_GAP) * frame->span_s / step_s / (frame->end - frame->left));
	while (stride * step_s < MINUTE && fmod(MINUTE, stride * step_s) > 0)
		stride++;
	return fmod(round((origin_s + ticks->list[index].at) / step_s), stride) == 0;
}

static void draw_times(const struct frame *frame)
{
	const struct mt_area_chart *chart = frame->chart;
	double base_s = chart->origin_ns ? 0 : (double)chart->start_ns / 1e9, low = 0;
	int row = frame->top + frame->rows;
	struct mt_ticks ticks;

	if (chart->origin_ns) {
		low = (double)(int64_t)(chart->start_ns - chart->origin_ns) / 1e9;
		mt_ticks_elapsed(low, low + frame->span_s,
				 (size_t)((frame->end - frame->left) / TICK_CELLS + 1), &ticks);
	} else {
		mt_ticks_clock(base_s, 0, frame->span_s, &ticks);
	}
	for (size_t i = 0; i < ticks.count; i++) {
		int column = column_of(frame, ticks.list[i].at - low),
		    length = (int)strlen(ticks.list[i].label), first = column - length / 2;

		if (!is_labelled(frame, &ticks, i, base_s))
			continue;
		put(frame, row, column, MT_STYLE_DIM, frame->canvas->unicode ? L'\u2534' : L'+');
		if (first >= frame->left - 1 && first + length <= frame->end + 1)
			mt_cells_put(frame->canvas, (struct mt_cell_place){row + 1, first, 0},
				     MT_STYLE_LABEL, ticks.list[i].label);
	}
}

static void draw_mark(const struct frame *frame, const struct mt_area_mark *mark)
{
	int row = frame->top + frame->rows,
	    column = column_of(frame, (double)(mark->time_ns - frame->chart->start_ns) / 1e9);
	enum mt_cell_style style = mark->is_for_pressure ? MT_STYLE_WARN
				   : mark->has_freed     ? MT_STYLE_GOOD
							 : MT_STYLE_PLAIN;
	wchar_t before = mt_cells_at(frame->canvas, row, column)->glyph;
	const char *was = before < 0x80 ? strchr(MT_AREA_MARK_LETTERS, (int)before) : NULL;

	/* of several the heaviest is seen */
	if (!was || !*was || strchr(MT_AREA_MARK_LETTERS, mark->letter) >= was)
		put(frame, row, column, style, (wchar_t)mark->letter);
}

/* The time of which cleanups are not kept is dotted. */
static void draw_axis(const struct frame *frame)
{
	const struct mt_area_chart *chart = frame->chart;
	bool unicode = frame->canvas->unicode;
	int row = frame->top + frame->rows, kept_from = frame->left;

	if (chart->kept_since_ns > chart->start_ns)
		kept_from =
			column_of(frame, (double)(chart->kept_since_ns - chart->start_ns) / 1e9);
	put(frame, row, frame->left - 1, MT_STYLE_DIM, unicode ? L'\u2514' : L'+');
	for (int column = frame->left; column < frame->end; column++)
		put(frame, row, column, MT_STYLE_DIM,
		    column < kept_from ? (unicode ? L'\u2508' : L'.')
		    : unicode          ? L'\u2500'
				       : L'-');
	draw_times(frame);
	for (size_t i = 0; i < chart->marks_count; i++)
		if (chart->marks[i].time_ns >= chart->start_ns &&
		    chart->marks[i].time_ns <= chart->end_ns)
			draw_mark(frame, &chart->marks[i]);
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

static double most_of(const struct mt_memory_parts *columns, size_t count)
{
	double most = 0;

	for (size_t i = 0; i < count; i++)
		most = fmax(most, (double)mt_memory_parts_sum(&columns[i]));
	return most;
}

void mt_area_chart_draw(struct mt_cells *cells, struct mt_cell_place at, int rows,
			const struct mt_area_chart *chart)
{
	struct frame frame = {.canvas = cells,
			      .chart = chart,
			      .left = at.column + SCALE_CELLS,
			      .end = at.end,
			      .top = at.row,
			      .rows = rows - FOOT_ROWS,
			      .span_s = (double)(chart->end_ns - chart->start_ns) / 1e9};
	struct mt_memory_parts *columns;
	struct mt_ticks ticks;
	size_t count;

	if (rows < MT_AREA_ROWS_MIN || frame.end - frame.left < COLUMNS_MIN)
		return;
	count = (size_t)(frame.end - frame.left);
	columns = mt_error_check_memory(calloc(count, sizeof(*columns)));
	chart->read(chart->data, columns, count);
	choose_scale(&frame, most_of(columns, count), &ticks);
	draw_areas(&frame, columns);
	draw_scale(&frame, &ticks);
	draw_axis(&frame);
	free(columns);
}

char mt_area_mark_letter(uint32_t level)
{
	return level == MT_LEVEL_HEAVY ? 'h' : level == MT_LEVEL_LIGHT ? 'l' : 'p';
}
