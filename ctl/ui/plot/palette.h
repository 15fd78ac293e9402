/* ctl/ui/plot/palette.h -- colours, shapes and hatching. The colours of lines are the set by Okabe
 * and Ito, for readers who cannot see red or green. In grey, dashes and shapes tell lines apart. */
#ifndef MT_CTL_UI_PLOT_PALETTE_H
#define MT_CTL_UI_PLOT_PALETTE_H

#include "ctl/ui/plot/canvas.h"

#define MT_RGB_TEXT   0x1a1a1au
#define MT_RGB_SOFT   0x4d4d4du /* secondary text */
#define MT_RGB_FRAME  0x666666u
#define MT_RGB_GRID   0xe3e6eau
#define MT_RGB_BLUE   0x0072b2u
#define MT_RGB_GREEN  0x009e73u
#define MT_RGB_ORANGE 0xe69f00u
#define MT_RGB_RED    0xd55e00u /* vermillion */
#define MT_RGB_PURPLE 0xcc79a7u
#define MT_RGB_SKY    0x56b4e9u
#define MT_RGB_BLACK  0x000000u

struct mt_box {
	double left, top, right, bottom;
};

enum mt_shape {
	MT_SHAPE_CIRCLE,
	MT_SHAPE_TRIANGLE,
	MT_SHAPE_DIAMOND,
	MT_SHAPE_SQUARE,
	MT_SHAPE_DOWN,
	MT_SHAPE_BAR,
	MT_SHAPE_COUNT
};

/* `radius` pixels around a point; hollow: white inside. */
struct mt_shape_style {
	enum mt_shape shape;
	double radius;
	uint32_t rgb;
	bool hollow;
};
void mt_shape_draw(struct mt_canvas *canvas, struct mt_point at,
		   const struct mt_shape_style *style);

/* Draws a box filled with colour, with slanted stripes `step` pixels apart. */
void mt_hatch_draw(struct mt_canvas *canvas, const struct mt_box *box, const struct mt_paint *paint,
		   double step);

/* Rows that explain lines and marks, outside the panels. */

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
