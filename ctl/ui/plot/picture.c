#include "ctl/ui/plot/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH        1200.0
#define HEIGHT       560.0 /* with one panel */
#define HEIGHT_MORE  180.0 /* for each other panel */
#define TITLE_HEIGHT 62.0
#define TIME_HEIGHT  30.0
#define APART        26.0 /* above each panel, for its title */
#define FREED_HEIGHT 15.0 /* and below that, for freed bytes */
#define PANELS_MAX   (1 + MT_DEVICES_COUNT)
#define LEGEND_MAX   (3 + MT_PARTS_COUNT + MT_MARKS_LEGEND)

/* How a curve is drawn, in its panel and in the legend. */
static const struct curve_style {
	const char *name, *text;
	struct mt_paint paint;
	double fill;
} rss_style = {"curve rss", "RSS", {MT_RGB_BLUE, 1, 1.4, MT_DASH_NONE}, 0},
  reserved_style = {"curve reserved", "RSS; GPU: reserved", {MT_RGB_BLUE, 1, 2.2, MT_DASH_NONE}, 0},
  allocated_style = {
	  "curve allocated", "GPU: allocated", {MT_RGB_GREEN, 1, 1.5, MT_DASH_LONG}, 0.22};

/* From below, as in every view; each with the darker line of its upper edge. */
static const struct curve_style part_styles[MT_PARTS_COUNT] = {
	[MT_PART_LIVE] = {"curve live", "live", {MT_RGB_GREEN, 0.6, 0.6, MT_DASH_NONE}, 0.55},
	[MT_PART_REUSABLE] = {"curve reusable",
			      "reusable",
			      {MT_RGB_ORANGE, 0.6, 0.6, MT_DASH_NONE},
			      0.55},
	[MT_PART_FILES] = {"curve files", "files", {MT_RGB_SKY, 0.6, 0.6, MT_DASH_NONE}, 0.4},
	[MT_PART_OTHER] = {"curve other", "other", {MT_RGB_PURPLE, 0.6, 0.6, MT_DASH_NONE}, 0.4},
};

struct picture {
	const struct mt_recording *recording;
	const struct mt_picture_options *options;
	struct mt_span span;
	uint64_t origin_ns;
	struct mt_panel panels[PANELS_MAX];
	size_t panels_count;
	bool has_heap, has_gpu;
};

/* ---- text ---- */

static void cut_to(struct mt_canvas *canvas, char *text, double width, const struct mt_font *font)
{
	size_t length = strlen(text);

	if (mt_canvas_text_width(canvas, text, font) <= width)
		return;
	while (length > 3 && mt_canvas_text_width(canvas, text, font) > width) {
		length--;
		while (length > 3 && ((unsigned char)text[length - 3] & 0xc0) == 0x80)
			length--;
		strcpy(text + length - 3, "...");
	}
}

void mt_picture_draw_title(struct mt_canvas *canvas, double width, const char *title,
			   const char *below)
{
	const struct mt_font large = {17, true, MT_RGB_TEXT, MT_ANCHOR_START},
			     small = {12, false, MT_RGB_SOFT, MT_ANCHOR_START};
	char text[256];

	mt_canvas_begin(canvas, "title", NULL);
	snprintf(text, sizeof(text), "%s", title);
	cut_to(canvas, text, width - 2 * MT_PICTURE_MARGIN, &large);
	mt_canvas_text(canvas, (struct mt_point){MT_PICTURE_MARGIN, 32}, text, &large);
	snprintf(text, sizeof(text), "%s", below);
	cut_to(canvas, text, width - 2 * MT_PICTURE_MARGIN, &small);
	mt_canvas_text(canvas, (struct mt_point){MT_PICTURE_MARGIN, 52}, text, &small);
	mt_canvas_end(canvas);
}

/* ---- contents ---- */

/* The process that names the picture: of a tree, its root. */
static const struct mt_recording_process *main_process(const struct picture *picture)
{
	return mt_recording_process(picture->recording, picture->options->pid
								? picture->options->pid
								: picture->recording->pid);
}

static void write_title(const struct picture *picture, char *out, size_t out_bytes)
{
	const struct mt_recording_process *process = main_process(picture);

	if (picture->options->title)
		mt_text_clean_utf8(picture->options->title, out, out_bytes);
	else if (process && *process->command)
		snprintf(out, out_bytes, "%s", process->command);
	else
		snprintf(out, out_bytes, "%s",
			 process && *process->comm ? process->comm : picture->recording->name);
}

static void add_text(char *text, size_t text_bytes, const char *format, const char *value)
{
	size_t used = strlen(text);

	snprintf(text + used, text_bytes - used, format, value);
}

/* Process, host, start; peak, mean and end of RSS; exit. */
static void write_subtitle(const struct picture *picture, char *out, size_t out_bytes)
{
	const struct mt_recording *recording = picture->recording;
	const struct mt_recording_process *process = main_process(picture);
	struct mt_series_sums rss =
		mt_run_sum_up(recording, picture->options->pid, picture->span.low,
			      &picture->panels[0].curves[0].series);
	char number[32];

	snprintf(out, out_bytes, "pid %" PRIu64,
		 picture->options->pid ? picture->options->pid : recording->pid);
	if (process && *process->rank)
		add_text(out, out_bytes, ", rank %s", process->rank);
	snprintf(number, sizeof(number), "%zu", recording->processes_count - 1);
	if (!picture->options->pid && recording->processes_count > 1)
		add_text(out, out_bytes, " and %s more (shared pages count in each)", number);
	if (*recording->host)
		add_text(out, out_bytes, " on %s", recording->host);
	add_text(out, out_bytes, ", from %s",
		 mt_text_date(picture->origin_ns + (uint64_t)(fmax(picture->span.low, 0) * 1e9),
			      "%Y-%m-%d %H:%M:%S")
			 .text);
	add_text(out, out_bytes, "; RSS: peak %s", mt_text_bytes(mt_text_round_u64(rss.peak)).text);
	add_text(out, out_bytes, ", mean %s", mt_text_bytes(mt_text_round_u64(rss.mean)).text);
	add_text(out, out_bytes, ", before the end %s",
		 mt_text_bytes(mt_text_round_u64(rss.end)).text);
	snprintf(number, sizeof(number), "%" PRIu64, recording->code);
	if (recording->ended && (recording->killed || recording->code))
		add_text(out, out_bytes,
			 recording->killed ? "; ended by signal %s" : "; exit code %s", number);
	if (recording->lost_count)
		add_text(out, out_bytes, "; %s not recorded",
			 mt_text_counted(recording->lost_count, "line or cleanup was",
					 "lines or cleanups were")
				 .text);
}

/* Takes the series over. `base`, or NULL: what the area stands on. */
static void add_curve(struct mt_panel *panel, const struct picture *picture,
		      const struct curve_style *style, struct mt_series series,
		      const struct mt_series *base)
{
	struct mt_curve *curve = &panel->curves[panel->curves_count++];

	*curve = (struct mt_curve){
		.name = style->name, .series = series, .paint = style->paint, .fill = style->fill};
	if (base)
		curve->base = *base;
	mt_series_cut(&curve->series, picture->span.low, picture->span.high);
	mt_series_cut(&curve->base, picture->span.low, picture->span.high);
}

static bool is_known(const struct mt_series *series)
{
	for (size_t i = 0; i < series->count; i++)
		if (!isnan(series->list[i].y))
			return true;
	return false;
}

/* RSS as a line, and its parts as areas that stand on each other. */
static void add_memory(struct picture *picture)
{
	struct mt_panel *panel = &picture->panels[picture->panels_count++];
	const struct mt_recording *recording = picture->recording;
	uint64_t pid = picture->options->pid, origin = picture->origin_ns;
	struct mt_series below = {0};

	snprintf(panel->title, sizeof(panel->title), "Memory");
	/* RSS is first: sum_up reads it there. Lines are drawn over areas all the same. */
	add_curve(panel, picture, &rss_style,
		  mt_series_of(recording, MT_RECORDING_RSS, pid, origin), NULL);
	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		struct mt_series sum =
			mt_series_of_part(recording, (enum mt_memory_part)i, pid, origin);
		struct mt_series next = mt_series_copy(&sum);

		picture->has_heap |= is_known(&sum);
		mt_series_add(&sum, &below);
		mt_series_add(&next, &below);
		add_curve(panel, picture, &part_styles[i], sum, i ? &below : NULL);
		below = next;
	}
	mt_series_free(&below);
}

static void add_gpu_curves(struct picture *picture, struct mt_panel *panel,
			   struct mt_series reserved, struct mt_series allocated)
{
	add_curve(panel, picture, &reserved_style, reserved, NULL);
	add_curve(panel, picture, &allocated_style, allocated, NULL);
	picture->has_gpu = true;
}

/* A recording has each device, the ring only their sum. */
static void add_devices(struct picture *picture)
{
	const struct mt_recording *recording = picture->recording;
	bool seen[MT_DEVICES_COUNT] = {false}, any = false;
	uint64_t origin = picture->origin_ns;
	struct mt_panel *panel;

	for (size_t i = 0; i < recording->devices_count; i++)
		any = seen[recording->devices[i].ordinal] = true;
	/* Values of a single moment, as a running process has them, make no line: its ring does. */
	any = any && (recording->samples_count == 1 ||
		      recording->devices[0].time_ns !=
			      recording->devices[recording->devices_count - 1].time_ns);
	for (uint64_t ordinal = 0; any && ordinal < MT_DEVICES_COUNT; ordinal++) {
		if (!seen[ordinal])
			continue;
		panel = &picture->panels[picture->panels_count++];
		snprintf(panel->title, sizeof(panel->title), "GPU %" PRIu64, ordinal);
		add_gpu_curves(picture, panel,
			       mt_series_of_device(recording,
						   &(struct mt_series_device){
							   ordinal, picture->options->pid, true},
						   origin),
			       mt_series_of_device(recording,
						   &(struct mt_series_device){
							   ordinal, picture->options->pid, false},
						   origin));
	}
	if (any)
		return;
	panel = &picture->panels[picture->panels_count++];
	snprintf(panel->title, sizeof(panel->title), "GPU, all devices");
	add_gpu_curves(
		picture, panel,
		mt_series_of(recording, MT_RECORDING_GPU_RESERVED, picture->options->pid, origin),
		mt_series_of(recording, MT_RECORDING_GPU_ALLOCATED, picture->options->pid, origin));
}

/* ---- the drawing ---- */

static struct mt_legend_item legend_item(const struct curve_style *style)
{
	return (struct mt_legend_item){.text = style->text,
				       .kind = style->fill > 0 ? MT_LEGEND_AREA : MT_LEGEND_LINE,
				       .paint = style->paint,
				       .fill = style->fill};
}

static size_t fill_legend(const struct picture *picture, const struct mt_marks *marks,
			  struct mt_legend_item *out)
{
	size_t count = 0;

	out[count++] = legend_item(picture->has_gpu ? &reserved_style : &rss_style);
	if (picture->has_heap) {
		for (int i = 0; i < MT_PARTS_COUNT; i++)
			out[count++] = legend_item(&part_styles[i]);
	}
	if (picture->has_gpu)
		out[count++] = legend_item(&allocated_style);
	return count + mt_marks_legend(marks, out + count);
}

/* The first panel is twice as high as each other one. */
static void lay_out(struct picture *picture, double width, double top, double bottom)
{
	double room = bottom - top - APART * (double)picture->panels_count,
	       share = room / (double)(picture->panels_count + 1);

	for (size_t i = 0; i < picture->panels_count; i++) {
		struct mt_box *box = &picture->panels[i].box;
		double height = picture->panels_count == 1 ? room : i ? share : 2 * share;

		top += APART;
		*box = (struct mt_box){MT_PICTURE_SIDE, top, width - MT_PICTURE_MARGIN,
				       top + height};
		top += height;
	}
}

static void draw_fields(struct mt_canvas *canvas, struct picture *picture,
			const struct mt_marks *marks)
{
	for (size_t i = 0; i < picture->panels_count; i++) {
		struct mt_panel *panel = &picture->panels[i];

		mt_panel_draw_field(canvas, panel);
		mt_marks_draw_behind(canvas, marks, &panel->box);
		mt_panel_draw_curves(canvas, panel, &picture->span);
		if (i == 0)
			mt_marks_draw_freed(canvas, marks, &panel->box, MT_PICTURE_MARGIN - 2);
	}
}

static void draw(struct mt_canvas *canvas, struct picture *picture, double width, double height)
{
	const struct mt_marks marks = {picture->recording, picture->options->pid,
				       picture->origin_ns, &picture->span};
	struct mt_legend_item items[LEGEND_MAX];
	size_t count = fill_legend(picture, &marks, items);
	double bottom = height - TIME_HEIGHT - mt_marks_height(&marks);
	struct mt_box above = {MT_PICTURE_MARGIN, picture->options->untitled ? 4 : TITLE_HEIGHT,
			       width - MT_PICTURE_MARGIN, 0};
	const struct mt_box *box = &picture->panels[0].box;
	char title[200], below[400];

	write_title(picture, title, sizeof(title));
	write_subtitle(picture, below, sizeof(below));
	if (!picture->options->untitled)
		mt_picture_draw_title(canvas, width, title, below);
	above.bottom = mt_legend_draw(canvas, &above, items, count);
	if (mt_marks_has_freed(&marks))
		picture->panels[0].below_title = FREED_HEIGHT;
	lay_out(picture, width, above.bottom + picture->panels[0].below_title, bottom);
	draw_fields(canvas, picture, &marks);
	mt_marks_draw_lanes(canvas, &marks, box, bottom);
	mt_panel_draw_time(canvas, box, height - TIME_HEIGHT, &picture->span);
}

static enum mt_err fill(struct picture *picture, struct mt_error_reason *why)
{
	const struct mt_run_part part = {picture->options->pid, picture->options->since_s,
					 picture->options->last_s};
	struct mt_span *span = &picture->span;
	enum mt_err error =
		mt_run_find_part(picture->recording, &part, &span->low, &span->high, why);

	if (error)
		return error;
	span->high = fmax(span->high, span->low + 1);
	span->origin = (double)picture->origin_ns / 1e9;
	span->as_clock = picture->options->as_clock;
	add_memory(picture);
	if (picture->options->gpu)
		add_devices(picture);
	return is_known(&picture->panels[0].curves[0].series)
		       ? MT_ERR_OK
		       : mt_error_because(why, MT_ERR_INVALID,
					  "nothing to be drawn: no samples in that time");
}

enum mt_err mt_picture_draw(const struct mt_recording *recording,
			    const struct mt_picture_options *options, struct mt_error_reason *why)
{
	struct picture *picture = mt_error_check_memory(calloc(1, sizeof(*picture)));
	struct mt_canvas_options paper = {.path = options->path, .page = options->page};
	struct mt_canvas *canvas;
	char title[200];
	enum mt_err error;

	picture->recording = recording;
	picture->options = options;
	picture->origin_ns = mt_recording_begin_ns(recording);
	error = fill(picture, why);
	if (!error) {
		write_title(picture, title, sizeof(title));
		paper.title = title;
		paper.width = options->width > 0 ? options->width : WIDTH;
		paper.height = options->height > 0
				       ? options->height
				       : HEIGHT + HEIGHT_MORE * (double)(picture->panels_count - 1);
		error = mt_canvas_open(&paper, &canvas, why);
	}
	if (!error) {
		draw(canvas, picture, paper.width, paper.height);
		error = mt_canvas_close(canvas, why);
	}
	for (size_t i = 0; i < picture->panels_count; i++)
		mt_panel_free(&picture->panels[i]);
	free(picture);
	return error;
}
