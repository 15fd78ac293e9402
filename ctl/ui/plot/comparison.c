/* ctl/ui/plot/comparison.c -- the picture of several recordings. See plot.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ui/plot/plot.h"

#define WIDTH        1200.0
#define HEIGHT       480.0 /* without the table */
#define HEIGHT_GPU   200.0 /* more with device memory */
#define TITLE_HEIGHT 66.0
#define TIME_HEIGHT  30.0
#define APART        26.0
#define ROW          21.0

struct comparison {
	const struct mt_compare_options *options;
	const struct mt_run *runs;
	struct mt_legend_item styles[MT_COMPARISON_MAX];
	size_t count;
	bool has_gpu;
	struct mt_span span;
	struct mt_panel memory, gpu;
};

/* Neighbours differ in colour, dashes and shape. */
static struct mt_legend_item style_of(size_t index)
{
	static const uint32_t colours[] = {MT_RGB_BLUE,   MT_RGB_RED, MT_RGB_GREEN, MT_RGB_PURPLE,
					   MT_RGB_ORANGE, MT_RGB_SKY, MT_RGB_BLACK};
	static const enum mt_shape shapes[] = {MT_SHAPE_CIRCLE, MT_SHAPE_TRIANGLE, MT_SHAPE_SQUARE,
					       MT_SHAPE_DIAMOND, MT_SHAPE_DOWN};
	uint32_t rgb = colours[index % (sizeof(colours) / sizeof(colours[0]))];
	bool second = index >= MT_DASH_COUNT;

	return (struct mt_legend_item){
		.kind = MT_LEGEND_LINE,
		.paint = {rgb, 1, 2, (enum mt_dash)(index % MT_DASH_COUNT)},
		.shape = {shapes[index % (sizeof(shapes) / sizeof(shapes[0]))], 4, rgb, second},
	};
}

static void add_curve(struct mt_panel *panel, const struct mt_legend_item *style,
		      struct mt_series series)
{
	struct mt_curve *curve = &panel->curves[panel->curves_count++];

	*curve = (struct mt_curve){.name = "curve run",
				   .series = series,
				   .paint = style->paint,
				   .shape = style->shape};
}

static void add_run(struct comparison *comparison, const struct mt_run *run)
{
	struct mt_legend_item *style = &comparison->styles[comparison->count];
	uint64_t origin = mt_recording_begin_ns(run->recording);

	*style = style_of(comparison->count++);
	comparison->has_gpu |= run->gpu.peak > 0;
	comparison->span.high = fmax(comparison->span.high, run->seconds);
	add_curve(&comparison->memory, style,
		  mt_series_of(run->recording, MT_RECORDING_RSS, 0, origin));
	add_curve(&comparison->gpu, style,
		  mt_series_of(run->recording, MT_RECORDING_GPU_RESERVED, 0, origin));
}

/* ---- the table ---- */

/* index: of the run; -1: the titles. */
static void draw_row(struct mt_canvas *canvas, const struct comparison *comparison, int index,
		     struct mt_point at)
{
	const struct mt_font name = {12, true, MT_RGB_TEXT, MT_ANCHOR_START},
			     plain = {12, false, MT_RGB_TEXT, MT_ANCHOR_END};
	const struct mt_paint line = {MT_RGB_GRID, 1, 1, MT_DASH_NONE};
	const struct mt_run *run = index < 0 ? NULL : &comparison->runs[index];
	double right = comparison->memory.box.right, step;
	const struct mt_point ends[] = {{at.x, at.y + 7}, {right, at.y + 7}};
	enum mt_run_column columns[MT_RUN_COLUMNS];
	size_t count = mt_run_columns(comparison->runs, comparison->count, columns);
	char text[80];

	step = (right - at.x) * 0.84 / (double)count;
	if (run) {
		mt_legend_swatch(canvas, (struct mt_point){at.x, at.y - 4},
				 &comparison->styles[index]);
		mt_canvas_text(canvas, (struct mt_point){at.x + MT_LEGEND_SWATCH + 9, at.y},
			       run->name, &name);
	}
	for (size_t i = 0; i < count; i++) {
		if (run)
			mt_run_cell(run, index ? comparison->runs : NULL, columns[i], text,
				    sizeof(text));
		else
			snprintf(text, sizeof(text), "%s", mt_run_title(columns[i]));
		mt_canvas_text(canvas,
			       (struct mt_point){right - step * (double)(count - 1 - i), at.y},
			       text, &plain);
	}
	mt_canvas_line(canvas, ends, 2, &line);
}

static void draw_table(struct mt_canvas *canvas, const struct comparison *comparison, double top)
{
	struct mt_point at = {MT_PICTURE_MARGIN, top + 14};

	mt_canvas_begin(canvas, "table", NULL);
	draw_row(canvas, comparison, -1, at);
	for (size_t i = 0; i < comparison->count; i++) {
		at.y += ROW;
		mt_canvas_begin(canvas, "row", NULL);
		draw_row(canvas, comparison, (int)i, at);
		mt_canvas_end(canvas);
	}
	mt_canvas_end(canvas);
}

/* ---- the picture ---- */

static void write_title(const struct comparison *comparison, char *out, size_t out_bytes)
{
	char names[MT_COMPARISON_MAX * (sizeof(comparison->runs[0].name) + 2)] = "";
	size_t used = 0;

	for (size_t i = 0; i < comparison->count; i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 comparison->runs[i].name);
	/* Cuts it, but never within a letter. */
	mt_text_clean_utf8(comparison->options->title ? comparison->options->title : names, out,
			   out_bytes);
}

/* The command, if it is the same in all runs. */
static void write_subtitle(const struct comparison *comparison, char *out, size_t out_bytes)
{
	const char *command = "";

	for (size_t i = 0; i < comparison->count; i++) {
		const struct mt_recording *recording = comparison->runs[i].recording;
		const struct mt_recording_process *process =
			mt_recording_process(recording, recording->pid);

		if (process && i == 0)
			command = process->command;
		else if (!process || strcmp(command, process->command) != 0)
			command = "";
	}
	snprintf(out, out_bytes, "%s%ssince the start of each run; in brackets: against the first",
		 command, *command ? "; " : "");
}

static void draw(struct mt_canvas *canvas, struct comparison *comparison, double width,
		 double height)
{
	double bottom = height - ROW * (double)(comparison->count + 1) - 22,
	       field = bottom - TIME_HEIGHT - 10;
	double first = comparison->has_gpu
			       ? TITLE_HEIGHT + APART + (field - TITLE_HEIGHT - 2 * APART) * 0.62
			       : field;
	char title[240], below[320];

	comparison->memory.box = (struct mt_box){MT_PICTURE_SIDE, TITLE_HEIGHT + APART,
						 width - MT_PICTURE_MARGIN, first};
	comparison->gpu.box =
		(struct mt_box){MT_PICTURE_SIDE, first + APART, width - MT_PICTURE_MARGIN, field};
	write_title(comparison, title, sizeof(title));
	write_subtitle(comparison, below, sizeof(below));
	mt_picture_draw_title(canvas, width, title, below);
	mt_panel_draw_field(canvas, &comparison->memory);
	mt_panel_draw_curves(canvas, &comparison->memory, &comparison->span);
	if (comparison->has_gpu) {
		mt_panel_draw_field(canvas, &comparison->gpu);
		mt_panel_draw_curves(canvas, &comparison->gpu, &comparison->span);
	}
	mt_panel_draw_time(canvas, &comparison->memory.box, field, &comparison->span);
	draw_table(canvas, comparison, bottom);
}

enum mt_err mt_comparison_draw(const struct mt_run *runs, size_t count,
			       const struct mt_compare_options *options,
			       struct mt_error_reason *why)
{
	struct comparison *comparison = mt_error_check_memory(calloc(1, sizeof(*comparison)));
	struct mt_canvas_options paper = {.path = options->path, .title = "runs compared"};
	struct mt_canvas *canvas;
	enum mt_err error;

	comparison->options = options;
	comparison->runs = runs;
	comparison->span.high = 1;
	snprintf(comparison->memory.title, sizeof(comparison->memory.title), "RSS");
	snprintf(comparison->gpu.title, sizeof(comparison->gpu.title), "GPU memory, reserved");
	for (size_t i = 0; i < count; i++)
		add_run(comparison, &runs[i]);
	paper.width = options->size.width > 0 ? options->size.width : WIDTH;
	paper.height = options->size.height > 0 ? options->size.height
						: HEIGHT + (comparison->has_gpu ? HEIGHT_GPU : 0) +
							  ROW * (double)(count + 1);
	error = mt_canvas_open(&paper, &canvas, why);
	if (!error) {
		draw(canvas, comparison, paper.width, paper.height);
		error = mt_canvas_close(canvas, why);
	}
	mt_panel_free(&comparison->memory);
	mt_panel_free(&comparison->gpu);
	free(comparison);
	return error;
}
