/* ctl/ui/plot/legend.h -- what each line and mark means, in rows that stand by themselves and cover
 * nothing. */
#ifndef MT_CTL_UI_PLOT_LEGEND_H
#define MT_CTL_UI_PLOT_LEGEND_H

#include "ctl/ui/plot/palette.h"

enum mt_legend_kind { MT_LEGEND_LINE, MT_LEGEND_AREA, MT_LEGEND_SHAPE, MT_LEGEND_HATCH };

struct mt_legend_item {
	const char *text;
	enum mt_legend_kind kind;
	struct mt_paint paint;      /* of a line, of the edge of an area, of a hatched box */
	double fill;                /* alpha inside an area */
	struct mt_shape_look shape; /* on a line as well, where its radius is not 0 */
	double step;                /* of stripes */
};

/* The sample of an item; `at` is the middle of its left side. */
#define MT_LEGEND_SWATCH 30.0
void mt_legend_swatch(struct mt_canvas *canvas, struct mt_canvas_point at,
		      const struct mt_legend_item *item);

/* From the upper left corner of the box, as wide as it is; answers where it ends below. */
double mt_legend_draw(struct mt_canvas *canvas, const struct mt_box *box,
		      const struct mt_legend_item *items, size_t count);

#endif
