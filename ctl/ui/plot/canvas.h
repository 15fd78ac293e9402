/* ctl/ui/plot/canvas.h -- draws into an SVG, PNG or PDF file, by the ending of its name.
 * Coordinates are pixels (PDF: points) from the upper left corner. The file is written by
 * mt_canvas_close, and not before. cairo draws PNG and PDF. SVG 1.1 is written here: in cairo's SVG
 * letters are outlines, which cannot be searched or read aloud, and there are no groups. For one
 * thread. */
#ifndef MT_CTL_UI_PLOT_CANVAS_H
#define MT_CTL_UI_PLOT_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ctl/metrics/scale.h"
#include "ctl/output/error.h"

struct mt_canvas;

enum mt_dash { MT_DASH_NONE, MT_DASH_LONG, MT_DASH_DOTS, MT_DASH_MIXED, MT_DASH_COUNT };

struct mt_paint {
	uint32_t rgb;
	double alpha; /* 0 transparent to 1 opaque */
	double width; /* of a line */
	enum mt_dash dash;
};

enum mt_anchor { MT_ANCHOR_START, MT_ANCHOR_MIDDLE, MT_ANCHOR_END };

struct mt_font {
	double size;
	bool bold;
	uint32_t rgb;
	enum mt_anchor anchor;
};

struct mt_canvas_options {
	const char *path;
	/* not NULL: an SVG to be a part of an HTML page is written there, without a background,
	 * and `path` is not used */
	FILE *page;
	const char *title; /* in the properties of the file */
	double width, height;
};

/* Opens a canvas for options->path or page, which must live until mt_canvas_close. INVALID: the
 * name has another ending. */
enum mt_err mt_canvas_open(const struct mt_canvas_options *options, struct mt_canvas **out,
			   struct mt_error_reason *why);

/* Writes the file and frees the canvas, also if it fails. SYSTEM: cairo or the file system
 * failed. */
enum mt_err mt_canvas_close(struct mt_canvas *canvas, struct mt_error_reason *why);

/* Begins a group, which in SVG has `name` (constant text, not escaped) as its class and `title` (or
 * NULL) as its tooltip. Groups may nest. */
void mt_canvas_begin(struct mt_canvas *canvas, const char *name, const char *title);
void mt_canvas_end(struct mt_canvas *canvas);

/* Draws a line through `count` points, or fills the area inside them. 0 points: nothing. */
void mt_canvas_line(struct mt_canvas *canvas, const struct mt_point *points, size_t count,
		    const struct mt_paint *paint);
void mt_canvas_area(struct mt_canvas *canvas, const struct mt_point *points, size_t count,
		    const struct mt_paint *paint);

/* Draws text on the baseline at.y. The text is UTF-8, and is escaped here. */
void mt_canvas_text(struct mt_canvas *canvas, struct mt_point at, const char *text,
		    const struct mt_font *font);

/* The width of a text in pixels. */
double mt_canvas_text_width(struct mt_canvas *canvas, const char *text, const struct mt_font *font);

/* ---- palette ---- */

/* Colours, shapes and hatching. The colours of lines are the set by Okabe
 * and Ito, for readers who cannot see red or green. In grey, dashes and shapes tell lines apart. */

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
	struct mt_shape_style shape; /* on a line, too, if its radius is not 0 */
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
