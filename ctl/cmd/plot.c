/* ctl/cmd/plot.c -- `mtctl plot` in the terminal and the table of `mtctl compare`. mtctl-plot draws
 * pictures, since they need a graphics library. */
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/metrics/recording.h"
#include "ctl/metrics/run.h"
#include "ctl/metrics/series.h"
#include "ctl/output/error.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/plot_options.h"

/* ---- chart ---- */

/* A chart of characters for a terminal. A cell has 2 x 4 dots where the locale is UTF-8 (Braille
 * patterns, U+2800), otherwise one. The layers differ in their pattern, so that the chart can be
 * read without colours: an area is full, a second area is a half of the dots, a line is a line. In
 * ASCII they are '#', ':' and '*'. */
enum mt_chart_layer { MT_CHART_AREA, MT_CHART_SECOND, MT_CHART_LINE, MT_CHART_LAYERS };

#define CELL_WIDTH  2
#define CELL_HEIGHT 4
#define BRAILLE     0x2800u
#define SIZE_MAX_   1000 /* columns and rows */

struct cell {
	unsigned char dots; /* as in U+2800 */
	unsigned char layers;
};

struct mt_chart {
	int columns, rows, dots_wide, dots_high;
	struct cell cells[];
};

/* Returns an empty chart of so many cells. is_utf8: of chart_is_utf8. */
static struct mt_chart *chart_new(int columns, int rows, bool is_utf8)
{
	size_t count = (size_t)columns * (size_t)rows;
	struct mt_chart *chart =
		mt_error_check_memory(calloc(1, sizeof(*chart) + count * sizeof(chart->cells[0])));

	chart->columns = columns;
	chart->rows = rows;
	chart->dots_wide = is_utf8 ? CELL_WIDTH : 1;
	chart->dots_high = is_utf8 ? CELL_HEIGHT : 1;
	return chart;
}

/* The size in dots. */
static int chart_width(const struct mt_chart *chart)
{
	return chart->columns * chart->dots_wide;
}

static int chart_height(const struct mt_chart *chart)
{
	return chart->rows * chart->dots_high;
}

static void set_dot(struct mt_chart *chart, enum mt_chart_layer layer, int x, int y)
{
	/* dots of a Braille pattern, from the top, left and right */
	static const unsigned char bits[CELL_HEIGHT][CELL_WIDTH] = {
		{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
	int from_top = chart_height(chart) - 1 - y;
	struct cell *cell =
		&chart->cells[from_top / chart->dots_high * chart->columns + x / chart->dots_wide];

	cell->layers |= (unsigned char)(1u << layer);
	/* every other dot, so that it is told from the area */
	if (layer != MT_CHART_SECOND || (x + y) % 2 == 0)
		cell->dots |= bits[from_top % chart->dots_high][x % chart->dots_wide];
}

/* Sets the dots of a column from `low` up to and without `high`; 0 is the bottom. What lies outside
 * is left out. */
static void chart_fill(struct mt_chart *chart, enum mt_chart_layer layer, int column, int low,
		       int high)
{
	if (column < 0 || column >= chart_width(chart))
		return;
	low = low < 0 ? 0 : low;
	high = high > chart_height(chart) ? chart_height(chart) : high;
	for (int y = low; y < high; y++)
		set_dot(chart, layer, column, y);
}

/* The layer that a cell is shown as: the line before the areas. */
static enum mt_chart_layer layer_of(const struct cell *cell)
{
	for (int layer = MT_CHART_LAYERS; layer-- > 0;)
		if (cell->layers & 1u << layer)
			return (enum mt_chart_layer)layer;
	return MT_CHART_LAYERS;
}

static const char *colour_of(enum mt_chart_layer layer)
{
	return layer == MT_CHART_AREA     ? mt_table_colour(MT_COLOUR_NOTE)
	       : layer == MT_CHART_SECOND ? mt_table_colour(MT_COLOUR_WARN)
					  : "";
}

static void print_cell(const struct mt_chart *chart, const struct cell *cell)
{
	static const char ascii[] = "#:* ";
	unsigned point = BRAILLE + cell->dots;

	if (chart->dots_high == 1 || !cell->dots)
		putchar(cell->layers ? ascii[layer_of(cell)] : ' ');
	else
		printf("%c%c%c", 0xe0 | (int)(point >> 12), 0x80 | (int)(point >> 6 & 0x3f),
		       0x80 | (int)(point & 0x3f));
}

/* Prints a row to stdout, without blanks at its end and without a newline; 0 is the top. */
static void chart_print_row(const struct mt_chart *chart, int row)
{
	const struct cell *cells = &chart->cells[row * chart->columns];
	const char *colour = "";
	int count = chart->columns;

	while (count && !cells[count - 1].layers)
		count--;
	for (int i = 0; i < count; i++) {
		const char *wanted = colour_of(layer_of(&cells[i]));

		if (wanted != colour)
			printf("%s%s", *colour ? mt_table_colour_end() : "", wanted);
		colour = wanted;
		print_cell(chart, &cells[i]);
	}
	if (*colour)
		fputs(mt_table_colour_end(), stdout);
}

/* Returns what stands for a layer in a legend. */
static const char *chart_swatch(enum mt_chart_layer layer, bool is_utf8)
{
	static const char *const swatches[MT_CHART_LAYERS][2] = {
		{"#", "\u28ff"}, {":", "\u2895"}, {"*", "\u2812"}};

	return swatches[layer][is_utf8];
}

/* Returns whether the locale of the environment is UTF-8. Calls setlocale(3). */
static bool chart_is_utf8(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);
	int value = text ? atoi(text) : 0;

	return value > 0 && value <= SIZE_MAX_ ? value : otherwise;
}

/* Returns the columns and rows of the terminal: of stdout, else COLUMNS and LINES, else 80 x 24. */
static void chart_screen(int *out_columns, int *out_rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
		*out_columns = size.ws_col < SIZE_MAX_ ? size.ws_col : SIZE_MAX_;
		*out_rows = size.ws_row < SIZE_MAX_ ? size.ws_row : SIZE_MAX_;
		return;
	}
	*out_columns = number_of("COLUMNS", 80);
	*out_rows = number_of("LINES", 24);
}

/* ---- plot text ---- */

/* `mtctl plot` without -o: a recording as a chart of characters. */

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
	return (int)lround(value / top * (chart_height(chart) - 1));
}

/* ---- drawing ---- */

static void draw_layer(struct mt_chart *chart, const struct frame *frame, const struct panel *panel,
		       enum mt_chart_layer layer, double top)
{
	const struct mt_series *series = &panel->series[layer];
	int width = chart_width(chart);
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
			chart_fill(chart, layer, x, dot_of(chart, low, top),
				   dot_of(chart, high, top) + 1);
		else
			chart_fill(chart, layer, x,
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
			printf("%s %s  ", chart_swatch((enum mt_chart_layer)layer, frame->is_utf8),
			       panel->names[layer]);
	printf("\n%*speak %s, mean %s, end %s\n", LABEL_WIDTH, "",
	       mt_text_bytes(mt_text_round_u64(sums.peak)).text,
	       mt_text_bytes(mt_text_round_u64(sums.mean)).text,
	       mt_text_bytes(mt_text_round_u64(sums.end)).text);
}

static void print_panel(const struct frame *frame, const struct panel *panel)
{
	struct mt_chart *chart = chart_new(frame->columns, frame->rows, frame->is_utf8);
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
		chart_print_row(chart, row);
		putchar('\n');
	}
	free(chart);
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
	printf("%s%.*s%s (pid %" PRIu64 ")\n", mt_table_colour(MT_COLOUR_HEAD),
	       mt_text_fit(title, frame->columns), title, mt_table_colour_end(), pid);
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

/* Prints the chart to stdout, as large as the terminal. as_clock: times of day. Returns
 * MT_ERR_INVALID where there is nothing to draw. */
static enum mt_err plot_text(const struct mt_recording *recording,
			     const struct mt_plot_options *options, bool as_clock,
			     struct mt_error_reason *why)
{
	struct frame frame = {.recording = recording,
			      .options = options,
			      .origin_ns = mt_recording_begin_ns(recording),
			      .as_clock = as_clock,
			      .is_utf8 = chart_is_utf8()};
	enum mt_err error = set_span(&frame, why);
	struct panel panel;

	if (error)
		return error;
	chart_screen(&frame.columns, &frame.rows);
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

/* The program reads the same command line again. */
static int draw_picture(const char *name, char **argv)
{
	const struct mt_command picture = {.name = name, .program = "mtctl-plot"};

	return mt_subcommand_exec(&picture, argv);
}

int mt_command_plot(int argc, char **argv)
{
	struct mt_plot_options options;
	struct mt_recording recording;
	struct mt_error_reason why;
	int code;

	if (!mt_plot_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return draw_picture("plot", argv);
	code = mt_recording_of_source(options.source, &recording);
	if (code != MT_EXIT_OK)
		return code;
	if (plot_text(&recording, &options,
		      mt_recording_is_file(options.source) ? options.clock : !options.no_clock,
		      &why) != MT_ERR_OK)
		code = mt_error_fail(MT_EXIT_USAGE, &why);
	mt_recording_free(&recording);
	return code;
}

int mt_command_compare(int argc, char **argv)
{
	struct mt_compare_options options;
	struct mt_runs runs;
	int code;

	if (!mt_compare_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return draw_picture("compare", argv);
	code = mt_runs_read(options.files, options.files_count, options.labels, &runs);
	if (code != MT_EXIT_OK)
		return code;
	(options.json ? mt_run_print_json : mt_run_print_table)(runs.list, runs.count);
	mt_runs_free(&runs);
	return MT_EXIT_OK;
}
