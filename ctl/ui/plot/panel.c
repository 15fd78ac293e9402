#include "ctl/ui/plot/panel.h"

#include <math.h>
#include <stdlib.h>

#define LABELS_APART 8.0  /* pixels between labels of the axis of time */
#define TICK_ROOM    55.0 /* pixels for one label of the axis of bytes */
#define SHAPE_APART  90.0 /* pixels between the shapes on a line */

struct mt_scale mt_panel_time_scale(const struct mt_box *box, const struct mt_span *span)
{
	return (struct mt_scale){span->low, span->high, box->left, box->right};
}

/* The scale of bytes, with its ticks. */
static struct mt_scale byte_scale(const struct mt_panel *panel, struct mt_ticks *ticks)
{
	double high = 0, wanted = floor((panel->box.bottom - panel->box.top) / TICK_ROOM);

	for (size_t i = 0; i < panel->curves_count; i++)
		high = fmax(high, mt_series_sum_up(&panel->curves[i].series).peak);
	mt_ticks_bytes(high * 1.02, wanted < 2 ? 2 : wanted > 12 ? 12 : (size_t)wanted, ticks);
	return (struct mt_scale){0, ticks->list[ticks->count - 1].at, panel->box.bottom,
				 panel->box.top};
}

static void draw_line(struct mt_canvas *canvas, struct mt_point from, struct mt_point to,
		      const struct mt_paint *paint)
{
	const struct mt_point ends[] = {from, to};

	mt_canvas_line(canvas, ends, 2, paint);
}

void mt_panel_draw_field(struct mt_canvas *canvas, const struct mt_panel *panel)
{
	const struct mt_font label = {11, false, MT_RGB_TEXT, MT_ANCHOR_END},
			     title = {12, true, MT_RGB_TEXT, MT_ANCHOR_START};
	const struct mt_paint grid = {MT_RGB_GRID, 1, 1, MT_DASH_NONE},
			      frame = {MT_RGB_FRAME, 1, 1, MT_DASH_NONE};
	const struct mt_box *box = &panel->box;
	struct mt_ticks ticks;
	struct mt_scale scale = byte_scale(panel, &ticks);

	mt_canvas_begin(canvas, "axis bytes", NULL);
	for (size_t i = 0; i < ticks.count; i++) {
		double y = mt_scale_position(&scale, ticks.list[i].at);

		draw_line(canvas, (struct mt_point){box->left, y}, (struct mt_point){box->right, y},
			  i ? &grid : &frame);
		mt_canvas_text(canvas, (struct mt_point){box->left - 8, y + 4}, ticks.list[i].label,
			       &label);
	}
	draw_line(canvas, (struct mt_point){box->left, box->top},
		  (struct mt_point){box->left, box->bottom}, &frame);
	mt_canvas_text(canvas, (struct mt_point){box->left, box->top - 7 - panel->below_title},
		       panel->title, &title);
	mt_canvas_end(canvas);
}

/* ---- lines ---- */

/* Buffers and scales for drawing curves. */
struct pen {
	struct mt_canvas *canvas;
	struct mt_scale x, y;
	size_t columns;
	struct mt_point *thinned;
	struct mt_point *points; /* twice as many: along the line, and back along the base */
};

static size_t scale_points(struct pen *pen, const struct mt_series *part, struct mt_point *out)
{
	size_t count = mt_series_thin(part, pen->x.low, pen->x.high, pen->columns, pen->thinned);

	for (size_t i = 0; i < count; i++)
		out[i] = (struct mt_point){mt_scale_position(&pen->x, pen->thinned[i].x),
					   mt_scale_position(&pen->y, pen->thinned[i].y)};
	return count;
}

static void reverse(struct mt_point *points, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct mt_point kept = points[i];

		points[i] = points[count - 1 - i];
		points[count - 1 - i] = kept;
	}
}

static void draw_area(struct pen *pen, const struct mt_curve *curve, const struct mt_series *base,
		      size_t count)
{
	const struct mt_paint fill = {curve->paint.rgb, curve->fill, 0, MT_DASH_NONE};
	size_t back = base->count ? scale_points(pen, base, pen->points + count) : 0;

	if (back) {
		reverse(pen->points + count, back);
	} else {
		pen->points[count] = (struct mt_point){pen->points[count - 1].x, pen->y.from};
		pen->points[count + 1] = (struct mt_point){pen->points[0].x, pen->y.from};
		back = 2;
	}
	mt_canvas_area(pen->canvas, pen->points, count + back, &fill);
}

/* Shapes on a line tell crossing lines apart. They begin at different positions. */
static void draw_shapes(struct pen *pen, const struct mt_curve *curve, size_t count)
{
	double next = pen->x.from + SHAPE_APART * (0.3 + 0.23 * (double)curve->shape.shape);

	for (size_t i = 1; i < count; i++)
		for (; next <= pen->points[i].x; next += SHAPE_APART) {
			const struct mt_point *a = &pen->points[i - 1], *b = &pen->points[i];
			double part = b->x > a->x ? (next - a->x) / (b->x - a->x) : 1;

			if (next >= a->x)
				mt_shape_draw(pen->canvas,
					      (struct mt_point){next, a->y + part * (b->y - a->y)},
					      &curve->shape);
		}
}

/* Draws a part without gaps. */
static void draw_part(struct pen *pen, const struct mt_curve *curve, size_t first, size_t count)
{
	const struct mt_series part = {curve->series.list + first, count};
	struct mt_series base = {0};
	size_t points;

	if (curve->base.count >= first + count)
		base = (struct mt_series){curve->base.list + first, count};
	points = scale_points(pen, &part, pen->points);
	if (points == 1) /* a single sample is a short line, to be visible */
		pen->points[points++] = (struct mt_point){pen->points[0].x + 2, pen->points[0].y};
	mt_canvas_line(pen->canvas, pen->points, points, &curve->paint);
	if (curve->shape.radius > 0)
		draw_shapes(pen, curve, points);
	if (curve->fill > 0)
		draw_area(pen, curve, &base, points);
}

static void draw_curve(struct pen *pen, const struct mt_curve *curve)
{
	const struct mt_point *list = curve->series.list;
	size_t count = curve->series.count, first = 0;

	mt_canvas_begin(pen->canvas, curve->name, NULL);
	while (first < count) {
		size_t end = first;

		while (end < count && !isnan(list[end].y))
			end++;
		if (end > first)
			draw_part(pen, curve, first, end - first);
		first = end + 1;
	}
	mt_canvas_end(pen->canvas);
}

void mt_panel_draw_curves(struct mt_canvas *canvas, struct mt_panel *panel,
			  const struct mt_span *span)
{
	struct mt_ticks ticks;
	struct pen pen = {.canvas = canvas,
			  .x = mt_panel_time_scale(&panel->box, span),
			  .y = byte_scale(panel, &ticks),
			  .columns = (size_t)(panel->box.right - panel->box.left)};
	size_t room = 4 * (pen.columns + 1) + 2;

	pen.thinned = mt_error_check_memory(calloc(room, sizeof(*pen.thinned)));
	pen.points = mt_error_check_memory(calloc(2 * room, sizeof(*pen.points)));
	for (size_t i = 0; i < panel->curves_count; i++) {
		mt_series_close_gaps(&panel->curves[i].series,
				     (span->high - span->low) / (double)pen.columns);
		if (panel->curves[i].base.count)
			mt_series_close_gaps(&panel->curves[i].base,
					     (span->high - span->low) / (double)pen.columns);
		draw_curve(&pen, &panel->curves[i]);
	}
	free(pen.thinned);
	free(pen.points);
}

void mt_panel_draw_time(struct mt_canvas *canvas, const struct mt_box *box, double y,
			const struct mt_span *span)
{
	const struct mt_font font = {11, false, MT_RGB_TEXT, MT_ANCHOR_MIDDLE};
	const struct mt_paint frame = {MT_RGB_FRAME, 1, 1, MT_DASH_NONE};
	struct mt_scale scale = mt_panel_time_scale(box, span);
	struct mt_ticks ticks;
	double free_from = 0;

	if (span->as_clock)
		mt_ticks_clock(span->origin, span->low, span->high, &ticks);
	else
		mt_ticks_elapsed(span->low, span->high,
				 (size_t)fmax(3, fmin(12, (box->right - box->left) / 90)), &ticks);
	mt_canvas_begin(canvas, "axis time", NULL);
	draw_line(canvas, (struct mt_point){box->left, y}, (struct mt_point){box->right, y},
		  &frame);
	for (size_t i = 0; i < ticks.count; i++) {
		double x = mt_scale_position(&scale, ticks.list[i].at),
		       half = mt_canvas_text_width(canvas, ticks.list[i].label, &font) / 2;

		draw_line(canvas, (struct mt_point){x, y}, (struct mt_point){x, y + 4}, &frame);
		if (x - half < free_from)
			continue;
		mt_canvas_text(canvas, (struct mt_point){x, y + 17}, ticks.list[i].label, &font);
		free_from = x + half + LABELS_APART;
	}
	mt_canvas_end(canvas);
}

void mt_panel_free(struct mt_panel *panel)
{
	for (size_t i = 0; i < panel->curves_count; i++) {
		mt_series_free(&panel->curves[i].series);
		mt_series_free(&panel->curves[i].base);
	}
}
