/* ctl/ui/plot/legend.c -- see legend.h. */
#include "ctl/ui/plot/legend.h"

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
