#include "ctl/ui/plot/palette.h"

#include <math.h>

#define CORNERS_MAX 16u

static size_t fill_corners(struct mt_point at, const struct mt_shape_style *style,
			   struct mt_point *out)
{
	/* Corners by their angle in eighths of a turn from the right, clockwise. A bar is a thin
	 * box. */
	static const struct {
		size_t count;
		double first, stretch;
	} corners[MT_SHAPE_COUNT] = {
		[MT_SHAPE_CIRCLE] = {16, 0, 1},   [MT_SHAPE_TRIANGLE] = {3, 6, 1.15},
		[MT_SHAPE_DIAMOND] = {4, 0, 1.2}, [MT_SHAPE_SQUARE] = {4, 1, 1.2},
		[MT_SHAPE_DOWN] = {3, 2, 1.15},   [MT_SHAPE_BAR] = {4, 1, 1}};
	size_t count = corners[style->shape].count;

	for (size_t i = 0; i < count; i++) {
		double angle = (corners[style->shape].first / 8 + (double)i / (double)count) * 2 *
			       3.14159265358979;
		double wide = style->shape == MT_SHAPE_BAR ? 0.3 : 1;

		out[i].x = at.x + cos(angle) * style->radius * corners[style->shape].stretch * wide;
		out[i].y = at.y + sin(angle) * style->radius * corners[style->shape].stretch;
	}
	return count;
}

void mt_shape_draw(struct mt_canvas *canvas, struct mt_point at, const struct mt_shape_style *style)
{
	const struct mt_paint inside = {style->hollow ? 0xffffffu : style->rgb, 1, 0, MT_DASH_NONE},
			      edge = {style->rgb, 1, 1.4, MT_DASH_NONE};
	struct mt_point corners[CORNERS_MAX + 1];
	size_t count = fill_corners(at, style, corners);

	mt_canvas_area(canvas, corners, count, &inside);
	corners[count] = corners[0];
	if (style->hollow)
		mt_canvas_line(canvas, corners, count + 1, &edge);
}

void mt_hatch_draw(struct mt_canvas *canvas, const struct mt_box *box, const struct mt_paint *paint,
		   double step)
{
	const struct mt_point corners[] = {{box->left, box->top},
					   {box->right, box->top},
					   {box->right, box->bottom},
					   {box->left, box->bottom}};
	const struct mt_paint stripe = {paint->rgb, 0.55, 0.8, MT_DASH_NONE};
	double height = box->bottom - box->top;

	mt_canvas_area(canvas, corners, 4, paint);
	/* Each stripe runs from the upper right to the lower left, cut at the sides. */
	for (double x = box->left + step / 2; x < box->right + height; x += step) {
		double above = x > box->right ? x - box->right : 0,
		       below = x - height < box->left ? x - box->left : height;
		const struct mt_point ends[] = {{x - above, box->top + above},
						{x - below, box->top + below}};

		mt_canvas_line(canvas, ends, 2, &stripe);
	}
}

/* ---- legend ---- */

#define ROW   20.0
#define APART 22.0 /* between items */
#define GAP   7.0  /* between a symbol and its text */

static double swatch_width(const struct mt_legend_item *item)
{
	return item->kind == MT_LEGEND_SHAPE ? 12 : MT_LEGEND_SWATCH;
}

void mt_legend_swatch(struct mt_canvas *canvas, struct mt_point at,
		      const struct mt_legend_item *item)
{
	const struct mt_box box = {at.x, at.y - 6, at.x + MT_LEGEND_SWATCH, at.y + 6};
	const struct mt_point edge[] = {{box.left, box.top}, {box.right, box.top}},
			      line[] = {{at.x, at.y}, {box.right, at.y}};
	const struct mt_point corners[] = {
		edge[0], edge[1], {box.right, box.bottom}, {box.left, box.bottom}};
	const struct mt_point middle = {at.x + swatch_width(item) / 2, at.y};
	const struct mt_paint fill = {item->paint.rgb, item->fill, 0, MT_DASH_NONE};

	if (item->kind == MT_LEGEND_AREA) {
		mt_canvas_area(canvas, corners, 4, &fill);
		mt_canvas_line(canvas, edge, 2, &item->paint);
	} else if (item->kind == MT_LEGEND_LINE) {
		mt_canvas_line(canvas, line, 2, &item->paint);
	} else if (item->kind == MT_LEGEND_HATCH) {
		mt_hatch_draw(canvas, &box, &item->paint, item->step);
	}
	if (item->shape.radius > 0)
		mt_shape_draw(canvas, middle, &item->shape);
}

double mt_legend_draw(struct mt_canvas *canvas, const struct mt_box *box,
		      const struct mt_legend_item *items, size_t count)
{
	const struct mt_font font = {12, false, MT_RGB_TEXT, MT_ANCHOR_START};
	struct mt_point at = {box->left, box->top + ROW / 2};

	mt_canvas_begin(canvas, "legend", NULL);
	for (size_t i = 0; i < count; i++) {
		double sample = swatch_width(&items[i]) + GAP;
		double width = sample + mt_canvas_text_width(canvas, items[i].text, &font);

		if (at.x > box->left && at.x + width > box->right)
			at = (struct mt_point){box->left, at.y + ROW};
		mt_legend_swatch(canvas, at, &items[i]);
		mt_canvas_text(canvas, (struct mt_point){at.x + sample, at.y + 4}, items[i].text,
			       &font);
		at.x += width + APART;
	}
	mt_canvas_end(canvas);
	return at.y + ROW / 2;
}
