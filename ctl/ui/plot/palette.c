/* ctl/ui/plot/palette.c -- see palette.h. */
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
