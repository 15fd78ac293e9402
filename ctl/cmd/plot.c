/* ctl/cmd/plot.c -- `mtctl plot` in the terminal and the table of `mtctl compare`. mtctl-plot draws
 * pictures, since they need a graphics library. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/metrics/series.h"
#include "ctl/metrics/recording.h"
#include "ctl/metrics/run.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/plot_options.h"

/* ---- the terminal ---- */

#define COLUMNS_MIN 30
#define COLUMNS_MAX 1000
#define ROWS_MIN    7 /* of a chart, with its axis */
#define ROWS_MAX    26
#define ROWS_AROUND 6 /* title, legend, sums, letters, prompt */

/* ---- what is drawn ---- */

struct frame {
	const struct mt_recording *recording;
	const struct mt_plot_options *options;
	uint64_t origin_ns;
	double low, high; /* seconds */
	bool as_clock;
	int columns, rows;
};

/* Areas on top of each other: sums[i] is the upper edge of area i; without points there is no such
 * area. */
struct panel {
	const struct frame *frame;
	const char *names[MT_PARTS_COUNT];
	const char *whole_name;
	bool is_rss;
	struct mt_series whole; /* what the areas are parts of */
	struct mt_series sums[MT_PARTS_COUNT];
};

static double between(const struct mt_point *a, const struct mt_point *b, double x)
{
	return b->x > a->x ? a->y + (b->y - a->y) * (x - a->x) / (b->x - a->x) : b->y;
}

/* Returns the highest value of the line from x `low` to `high`, 0 in a gap. *cursor: the first
 * point that the next column may need. */
static double highest(const struct mt_series *series, size_t *cursor, double low, double high)
{
	double most = 0;

	while (*cursor + 1 < series->count && series->list[*cursor + 1].x <= low)
		(*cursor)++;
	for (size_t i = *cursor; i < series->count && series->list[i].x <= high; i++) {
		const struct mt_point *point = &series->list[i], *next = point + 1;

		if (point->x >= low)
			most = fmax(most, point->y);
		if (i + 1 < series->count && next->x >= low) {
			most = fmax(most, between(point, next, fmax(low, point->x)));
			most = fmax(most, between(point, next, fmin(high, next->x)));
		}
	}
	return most;
}

/* What the areas leave of the whole is the last part. */
static void read_columns(const void *data, struct mt_memory_parts *out, size_t count)
{
	const struct panel *panel = data;
	double step = (panel->frame->high - panel->frame->low) / (double)count;
	size_t cursors[MT_PARTS_COUNT + 1] = {0};

	for (size_t i = 0; i < count; i++) {
		double from = panel->frame->low + step * (double)i, below = 0, top;

		for (int part = 0; part < MT_PARTS_COUNT; part++) {
			top = highest(&panel->sums[part], &cursors[part], from, from + step);
			out[i].bytes[part] = mt_text_round_u64(top - below);
			below = fmax(below, top);
		}
		top = highest(&panel->whole, &cursors[MT_PARTS_COUNT], from, from + step);
		out[i].bytes[MT_PART_OTHER] += mt_text_round_u64(top - below);
	}
}

static struct mt_series read_series(const struct frame *frame, enum mt_recording_figure figure)
{
	struct mt_series series =
		mt_series_of(frame->recording, figure, frame->options->pid, frame->origin_ns);

	mt_series_cut(&series, frame->low, frame->high);
	return series;
}

static void read_memory(const struct frame *frame, struct panel *out)
{
	*out = (struct panel){.frame = frame,
			      .whole_name = "RSS",
			      .is_rss = true,
			      .whole = read_series(frame, MT_RECORDING_RSS)};
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		out->names[i] = mt_memory_part_word((enum mt_memory_part)i);
		out->sums[i] = mt_series_of_part(frame->recording, (enum mt_memory_part)i,
						 frame->options->pid, frame->origin_ns);
		mt_series_cut(&out->sums[i], frame->low, frame->high);
		if (i)
			mt_series_add(&out->sums[i], &out->sums[i - 1]);
	}
}

static void read_gpu(const struct frame *frame, struct panel *out)
{
	*out = (struct panel){
		.frame = frame,
		.names = {[MT_PART_LIVE] = "allocated", [MT_PART_REUSABLE] = "reserved beyond it"},
		.whole_name = "reserved",
		.whole = read_series(frame, MT_RECORDING_GPU_RESERVED),
		.sums = {[MT_PART_LIVE] = read_series(frame, MT_RECORDING_GPU_ALLOCATED),
			 [MT_PART_REUSABLE] = read_series(frame, MT_RECORDING_GPU_RESERVED)}};
}

/* Returns the cleanups and rounds that are shown, by rising time. The caller frees. */
static struct mt_area_mark *list_marks(const struct frame *frame, size_t *out_count)
{
	const struct mt_recording *recording = frame->recording;
	struct mt_area_mark *list =
		mt_error_check_memory(calloc(recording->marks_count + 1, sizeof(*list)));

	*out_count = 0;
	for (size_t i = 0; i < recording->marks_count; i++) {
		const struct mt_recording_mark *mark = &recording->marks[i];

		if (mark->kind != MT_RECORDING_PRESSURE &&
		    (!frame->options->pid || mark->pid == frame->options->pid))
			list[(*out_count)++] = (struct mt_area_mark){
				.time_ns = mark->time_ns,
				.letter = mark->kind == MT_RECORDING_ROUND
						  ? 'r'
						  : mt_area_mark_letter(mark->level),
				.has_freed = mark->freed_bytes != 0};
	}
	return list;
}

/* ---- drawing ---- */

static void draw_legend(struct mt_cells *cells, const struct panel *panel, int row)
{
	struct mt_series_sums sums =
		panel->is_rss ? mt_run_sum_up(panel->frame->recording, panel->frame->options->pid,
					      panel->frame->low, &panel->whole)
			      : mt_series_sum_up(&panel->whole);
	struct mt_cell_place at = {row, 1, 0};
	char text[200];

	for (int i = 0; i < MT_PARTS_COUNT; i++)
		if (panel->names[i]) {
			at.column = mt_cells_put_glyph(
				cells, at, (enum mt_cell_style)(MT_STYLE_LIVE + i),
				mt_memory_part_cell(cells, (enum mt_memory_part)i));
			at.column =
				mt_cells_put(cells, (struct mt_cell_place){row, at.column + 1, 0},
					     MT_STYLE_PLAIN, panel->names[i]) +
				2;
		}
	snprintf(text, sizeof(text), "%s: peak %.40s, mean %.40s, end %.40s", panel->whole_name,
		 mt_text_bytes(mt_text_round_u64(sums.peak)).text,
		 mt_text_bytes(mt_text_round_u64(sums.mean)).text,
		 mt_text_bytes(mt_text_round_u64(sums.end)).text);
	mt_cells_put(cells, (struct mt_cell_place){row + 1, 1, 0}, MT_STYLE_PLAIN, text);
}

static void print_panel(const struct frame *frame, struct panel *panel)
{
	size_t marks_count;
	struct mt_area_mark *marks = list_marks(frame, &marks_count);
	struct mt_cells cells =
		mt_cells_for_stdout(frame->columns, frame->rows + 2 + (marks_count > 0));
	const struct mt_area_chart chart = {
		.start_ns = frame->origin_ns + (uint64_t)(frame->low * 1e9),
		.end_ns = frame->origin_ns + (uint64_t)(frame->high * 1e9),
		.origin_ns = frame->as_clock ? 0 : frame->origin_ns,
		.marks = marks,
		.marks_count = marks_count,
		.read = read_columns,
		.data = panel};

	mt_area_chart_draw(&cells, (struct mt_cell_place){0, 0, frame->columns}, frame->rows,
			   &chart);
	draw_legend(&cells, panel, frame->rows);
	mt_cells_put(&cells, (struct mt_cell_place){frame->rows + 2, 1, 0}, MT_STYLE_PLAIN,
		     "p purge, l light, h heavy cleanup, r round");
	for (int row = 0; row < cells.rows; row++) {
		mt_cells_write_row(&cells, row, stdout);
		putchar('\n');
	}
	mt_cells_free(&cells);
	free(marks);
	mt_series_free(&panel->whole);
	for (size_t i = 0; i < MT_PARTS_COUNT; i++)
		mt_series_free(&panel->sums[i]);
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

static int clamp(int value, int least, int most)
{
	return value < least ? least : value > most ? most : value;
}

/* Prints the chart to stdout, as large as the terminal. as_clock: times of day. Returns
 * MT_ERR_INVALID if there is nothing to draw. */
static enum mt_err plot_text(const struct mt_recording *recording,
			     const struct mt_plot_options *options, bool as_clock,
			     struct mt_error_reason *why)
{
	struct frame frame = {.recording = recording,
			      .options = options,
			      .origin_ns = mt_recording_begin_ns(recording),
			      .as_clock = as_clock};
	const struct mt_run_part part = {options->pid, options->since_s, options->last_s};
	enum mt_err error = mt_run_find_part(recording, &part, &frame.low, &frame.high, why);
	struct panel panel;

	if (error)
		return error;
	frame.high = fmax(frame.high, frame.low + 0.1);
	mt_table_screen(&frame.columns, &frame.rows);
	frame.columns = clamp(frame.columns ? frame.columns : 80, COLUMNS_MIN, COLUMNS_MAX);
	frame.rows = clamp((frame.rows ? frame.rows : 24) - ROWS_AROUND, ROWS_MIN, ROWS_MAX);
	print_title(&frame);
	read_memory(&frame, &panel);
	print_panel(&frame, &panel);
	if (options->gpu) {
		read_gpu(&frame, &panel);
		puts("GPU memory");
		print_panel(&frame, &panel);
	}
	return MT_ERR_OK;
}

/* The program that draws reads the same command line again. */
int mt_command_plot(int argc, char **argv)
{
	static const struct mt_command picture = {.name = "plot", .program = "mtctl-plot"};
	struct mt_plot_options options;
	struct mt_recording recording;
	struct mt_error_reason why;
	int code;

	if (!mt_plot_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return mt_subcommand_exec(&picture, argv);
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
	static const struct mt_command picture = {.name = "compare", .program = "mtctl-plot"};
	struct mt_compare_options options;
	struct mt_runs runs;
	int code;

	if (!mt_compare_options_read(argc, argv, &options, &code))
		return code;
	if (options.path)
		return mt_subcommand_exec(&picture, argv);
	code = mt_runs_read(options.files, options.files_count, options.labels, &runs);
	if (code != MT_EXIT_OK)
		return code;
	(options.json ? mt_run_print_json : mt_run_print_table)(runs.list, runs.count);
	mt_runs_free(&runs);
	return MT_EXIT_OK;
}
