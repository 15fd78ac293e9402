/* ctl/cmd/plot_text.c -- see plot_text.h. */
#include "ctl/cmd/plot_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics/series.h"
#include "ctl/output/chart.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

#define LABEL_WIDTH  9  /* of the axis, with the line */
#define COLUMNS_MIN  20 /* of the chart */
#define ROWS_MIN     5
#define ROWS_MAX     24
#define ROWS_AROUND  9 /* title, axis, cleanups, legend, sums, prompt */
#define TICK_COLUMNS 16

struct frame {
	const struct mt_recording *recording;
	const struct mt_plot_options *options;
	uint64_t origin_ns;
	double low, high; /* seconds */
	bool as_clock, is_utf8;
	int columns, rows;
};

/* One figure drawn as an area, one on top of it, one as a line; only the line must be there. */
struct panel {
	const char *title;
	const char *names[MT_CHART_LAYERS];
	struct mt_series series[MT_CHART_LAYERS];
};

/* ---- values of a column ---- */

static double between(const struct mt_point *a, const struct mt_point *b, double x)
{
	return b->x > a->x ? a->y + (b->y - a->y) * (x - a->x) / (b->x - a->x) : b->y;
}

/* Finds the lowest and highest value of the line from x `low` to `high`. *cursor: the first point
 * that the next column may need. Returns false in a gap. */
static bool range_of(const struct mt_series *series, size_t *cursor, double low, double high,
		     double *out_low, double *out_high)
{
	double least = INFINITY, most = -INFINITY;

	while (*cursor + 1 < series->count && series->list[*cursor + 1].x <= low)
		(*cursor)++;
	for (size_t i = *cursor; i < series->count; i++) {
		const struct mt_point *point = &series->list[i], *next = point + 1;
		double values[3] = {NAN, NAN, NAN};

		if (point->x > high)
			break;
		if (point->x >= low)
			values[0] = point->y;
		if (i + 1 < series->count && next->x >= low) {
			values[1] = between(point, next, fmax(low, point->x));
			values[2] = between(point, next, fmin(high, next->x));
		}
		for (size_t j = 0; j < 3; j++) {
			least = fmin(least, values[j]);
			most = fmax(most, values[j]);
		}
	}
	*out_low = least;
	*out_high = most;
	return most >= least;
}

static int dot_of(const struct mt_chart *chart, double value, double top)
{
	return (int)lround(value / top * (mt_chart_height(chart) - 1));
}

/* ---- drawing ---- */

static void draw_layer(struct mt_chart *chart, const struct frame *frame, const struct panel *panel,
		       enum mt_chart_layer layer, double top)
{
	const struct mt_series *series = &panel->series[layer];
	int width = mt_chart_width(chart);
	double step = (frame->high - frame->low) / width, low, high;
	size_t cursor = 0, below_cursor = 0;

	for (int x = 0; x < width; x++) {
		double from = frame->low + step * x, below_low, below = 0;

		if (!range_of(series, &cursor, from, from + step, &low, &high))
			continue;
		if (layer == MT_CHART_SECOND &&
		    !range_of(&panel->series[MT_CHART_AREA], &below_cursor, from, from + step,
			      &below_low, &below))
			continue;
		if (layer == MT_CHART_LINE)
			mt_chart_fill(chart, layer, x, dot_of(chart, low, top),
				      dot_of(chart, high, top) + 1);
		else
			mt_chart_fill(chart, layer, x,
				      layer == MT_CHART_AREA ? 0 : dot_of(chart, below, top) + 1,
				      dot_of(chart, high, top) + (high > 0));
	}
}

/* The label of a row: that of the tick that lies in it. */
static const char *label_of(const struct mt_ticks *ticks, double top, int row, int rows)
{
	for (size_t i = 0; i < ticks->count; i++)
		if (rows - 1 - (int)lround(ticks->list[i].at / top * (rows - 1)) == row)
			return ticks->list[i].label;
	return "";
}

static void print_time_axis(const struct frame *frame)
{
	char marks[1024], labels[1024];
	struct mt_ticks ticks;
	int free_from = 0;

	if (frame->as_clock)
		mt_ticks_clock((double)frame->origin_ns / 1e9, frame->low, frame->high, &ticks);
	else
		mt_ticks_elapsed(frame->low, frame->high,
				 (size_t)(frame->columns / TICK_COLUMNS + 1), &ticks);
	memset(marks, '-', sizeof(marks));
	memset(labels, ' ', sizeof(labels));
	for (size_t i = 0; i < ticks.count; i++) {
		double share = (ticks.list[i].at - frame->low) / (frame->high - frame->low);
		int at = (int)(share * (frame->columns - 1)),
		    length = (int)strlen(ticks.list[i].label);
		int first = at - length / 2 < 0 ? 0 : at - length / 2;

		if (first < free_from || first + length > frame->columns)
			continue;
		marks[at] = '+';
		memcpy(labels + first, ticks.list[i].label, (size_t)length);
		free_from = first + length + 2;
	}
	printf("%*s+%.*s\n%*s%.*s\n", LABEL_WIDTH - 1, "", frame->columns, marks, LABEL_WIDTH, "",
	       free_from > 2 ? free_from - 2 : 0, labels);
}

/* Where a column has several marks, the heaviest cleanup is shown. */
static void print_lane(const struct frame *frame)
{
	static const char letters[] = "rpph", order[] = " rplh";
	char lane[1024];
	size_t cleanups = 0;

	memset(lane, ' ', sizeof(lane));
	for (size_t i = 0; i < frame->recording->marks_count; i++) {
		const struct mt_recording_mark *mark = &frame->recording->marks[i];
		double x = ((double)mark->time_ns - (double)frame->origin_ns) / 1e9;
		int at =
			(int)((x - frame->low) / (frame->high - frame->low) * (frame->columns - 1));
		char letter = mark->kind == MT_RECORDING_ROUND ? letters[0]
			      : mark->level == MT_LEVEL_HEAVY  ? 'h'
			      : mark->level == MT_LEVEL_LIGHT  ? 'l'
							       : 'p';

		if (mark->kind == MT_RECORDING_PRESSURE || x < frame->low || x > frame->high ||
		    (frame->options->pid && mark->pid != frame->options->pid))
			continue;
		cleanups += mark->kind == MT_RECORDING_CLEANUP;
		if (strchr(order, letter) > strchr(order, lane[at]))
			lane[at] = letter;
	}
	for (int i = frame->columns; i > 0 && lane[i - 1] == ' '; i--)
		lane[i - 1] = '\0';
	if (memchr(lane, '\0', (size_t)frame->columns) != lane)
		printf("%*s%.*s\n%*sp purge, l light, h heavy cleanup (%zu), r round\n",
		       LABEL_WIDTH, "", frame->columns, lane, LABEL_WIDTH, "", cleanups);
}

static void print_legend(const struct frame *frame, const struct panel *panel)
{
	struct mt_series_sums sums = mt_series_sum_up(&panel->series[MT_CHART_LINE]);

	printf("%*s", LABEL_WIDTH, "");
	for (int layer = MT_CHART_LAYERS; layer-- > 0;)
		if (panel->series[layer].count)
			printf("%s %s  ",
			       mt_chart_swatch((enum mt_chart_layer)layer, frame->is_utf8),
			       panel->names[layer]);
	printf("\n%*speak %s, mean %s, end %s\n", LABEL_WIDTH, "",
	       mt_text_bytes(mt_text_round_u64(sums.peak)).text,
	       mt_text_bytes(mt_text_round_u64(sums.mean)).text,
	       mt_text_bytes(mt_text_round_u64(sums.end)).text);
}

static void print_panel(const struct frame *frame, const struct panel *panel)
{
	struct mt_chart *chart = mt_chart_new(frame->columns, frame->rows, frame->is_utf8);
	struct mt_ticks ticks;
	double most = 0, top;

	for (size_t layer = 0; layer < MT_CHART_LAYERS; layer++)
		most = fmax(most, mt_series_sum_up(&panel->series[layer]).peak);
	mt_ticks_bytes(most, (size_t)(frame->rows / 4 + 1), &ticks);
	top = ticks.list[ticks.count - 1].at;
	for (int layer = 0; layer < MT_CHART_LAYERS; layer++)
		if (panel->series[layer].count)
			draw_layer(chart, frame, panel, (enum mt_chart_layer)layer, top);
	for (int row = 0; row < frame->rows; row++) {
		printf("%*s|", LABEL_WIDTH - 1, label_of(&ticks, top, row, frame->rows));
		mt_chart_print_row(chart, row);
		putchar('\n');
	}
	mt_chart_free(chart);
	print_time_axis(frame);
	print_legend(frame, panel);
}

/* ---- what is drawn ---- */

static struct mt_series read_series(const struct frame *frame, enum mt_recording_figure figure)
{
	struct mt_series series =
		mt_series_of(frame->recording, figure, frame->options->pid, frame->origin_ns);

	mt_series_cut(&series, frame->low, frame->high);
	return series;
}

static struct mt_series read_part(const struct frame *frame, enum mt_memory_part part)
{
	struct mt_series series =
		mt_series_of_part(frame->recording, part, frame->options->pid, frame->origin_ns);

	mt_series_cut(&series, frame->low, frame->high);
	return series;
}

/* The figures of an area that is nowhere known are left out. */
static void drop_unknown(struct mt_series *series)
{
	for (size_t i = 0; i < series->count; i++)
		if (!isnan(series->list[i].y))
			return;
	series->count = 0;
}

static void read_memory(const struct frame *frame, struct panel *out)
{
	*out = (struct panel){.title = "memory", .names = {"live", "reusable", "RSS"}};
	out->series[MT_CHART_AREA] = read_part(frame, MT_PART_LIVE);
	out->series[MT_CHART_SECOND] = read_part(frame, MT_PART_REUSABLE);
	out->series[MT_CHART_LINE] = read_series(frame, MT_RECORDING_RSS);
	mt_series_add(&out->series[MT_CHART_SECOND], &out->series[MT_CHART_AREA]);
	for (size_t layer = 0; layer < MT_CHART_LAYERS; layer++)
		drop_unknown(&out->series[layer]);
}

static void read_gpu(const struct frame *frame, struct panel *out)
{
	*out = (struct panel){.title = "GPU memory", .names = {"allocated", "", "reserved"}};
	out->series[MT_CHART_AREA] = read_series(frame, MT_RECORDING_GPU_ALLOCATED);
	out->series[MT_CHART_LINE] = read_series(frame, MT_RECORDING_GPU_RESERVED);
	for (size_t layer = 0; layer < MT_CHART_LAYERS; layer++)
		drop_unknown(&out->series[layer]);
}

static void free_panel(struct panel *panel)
{
	for (size_t layer = 0; layer < MT_CHART_LAYERS; layer++)
		mt_series_free(&panel->series[layer]);
}

static void print_title(const struct frame *frame)
{
	uint64_t pid = frame->options->pid ? frame->options->pid : frame->recording->pid;
	const struct mt_recording_process *process = mt_recording_process(frame->recording, pid);
	char title[200];

	mt_text_clean_utf8(frame->options->title          ? frame->options->title
			   : process && *process->command ? process->command
							  : frame->recording->name,
			   title, sizeof(title));
	printf("%s%.*s%s (pid %" PRIu64 ")\n", mt_table_colour(MT_COLOUR_HEAD), frame->columns,
	       title, mt_table_colour_end(), pid);
}

static enum mt_err set_span(struct frame *frame, struct mt_error_reason *why)
{
	const struct mt_recording *recording = frame->recording;
	double end = (double)(mt_recording_end_ns(recording) - frame->origin_ns) / 1e9;

	if (!recording->samples_count)
		return mt_error_because(why, MT_ERR_INVALID, "nothing to be drawn: no samples");
	if (frame->options->pid && !mt_recording_process(recording, frame->options->pid))
		return mt_error_because(why, MT_ERR_INVALID,
					"no process %" PRIu64 " in this recording",
					frame->options->pid);
	frame->low = frame->options->since_s;
	if (frame->options->last_s > 0)
		frame->low = fmax(frame->low, end - frame->options->last_s);
	if (frame->low > end)
		return mt_error_because(why, MT_ERR_INVALID,
					"nothing to be drawn: it ends after %.1f seconds", end);
	frame->high = fmax(end, frame->low + 0.1);
	return MT_ERR_OK;
}

static int clamp(int value, int least, int most)
{
	return value < least ? least : value > most ? most : value;
}

enum mt_err mt_plot_text(const struct mt_recording *recording,
			 const struct mt_plot_options *options, bool as_clock,
			 struct mt_error_reason *why)
{
	struct frame frame = {.recording = recording,
			      .options = options,
			      .origin_ns = mt_recording_begin_ns(recording),
			      .as_clock = as_clock,
			      .is_utf8 = mt_chart_is_utf8()};
	enum mt_err error = set_span(&frame, why);
	struct panel panel;

	if (error)
		return error;
	mt_chart_screen(&frame.columns, &frame.rows);
	frame.columns = clamp(frame.columns - LABEL_WIDTH - 1, COLUMNS_MIN, 1000);
	frame.rows = clamp(frame.rows - ROWS_AROUND, ROWS_MIN, ROWS_MAX);
	print_title(&frame);
	read_memory(&frame, &panel);
	print_panel(&frame, &panel);
	free_panel(&panel);
	print_lane(&frame);
	if (options->gpu) {
		read_gpu(&frame, &panel);
		puts("GPU memory");
		print_panel(&frame, &panel);
		free_panel(&panel);
	}
	return MT_ERR_OK;
}
