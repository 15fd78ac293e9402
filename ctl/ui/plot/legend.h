/* ctl/ui/plot/legend.h -- rows that explain lines and marks, outside the panels. */
#ifndef MT_CTL_UI_PLOT_LEGEND_H
#define MT_CTL_UI_PLOT_LEGEND_H

#include "ctl/ui/plot/palette.h"

enum mt_legend_kind { MT_LEGEND_LINE, MT_LEGEND_AREA, MT_LEGEND_SHAPE, MT_LEGEND_HATCH };

struct mt_legend_item {
	const char *text;
	enum mt_legend_kind kind;
	struct mt_paint paint;       /* of a line, of the edge of an area, of a hatched box */
	double fill;                 /* alpha inside an area */
	struct mt_shape_style shape; /* on a line, too, where its radius is not 0 */
	double step;                 /* pixels between stripes */
};

/* Draws the symbol of an item; `at` is the middle of its left side. */
#define MT_LEGEND_SWATCH 30.0
void mt_legend_swatch(struct mt_canvas *canvas, struct mt_point at,
		      const struct mt_legend_item *item);

/* Draws items from the upper left corner of the box in rows of its width. Returns the y below the
 * last row. */
double mt_legend_draw(struct mt_canvas *canvas, const struct mt_box *box,
		      const struct mt_legend_item *items, size_t count);

#endif
