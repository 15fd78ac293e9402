/* ctl/ui/plot/plot.h -- the parts of a picture: the surface, one panel, and all of them. */
#ifndef MT_CTL_UI_PLOT_PLOT_H
#define MT_CTL_UI_PLOT_PLOT_H

#include <stdio.h>

#include "ctl/metrics/run.h"
#include "ctl/metrics/series.h"
#include "ctl/output/error.h"
#include "ctl/plot_options.h"

/* Draws into an SVG, PNG or PDF file, by the ending of its name.
 * Coordinates are pixels (PDF: points) from the upper left corner. The file is written by
 * mt_canvas_close, and not before. cairo draws PNG and PDF. SVG 1.1 is written here: in cairo's SVG
 * letters are outlines, which cannot be searched or read aloud, and there are no groups. For one
 * thread. */

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

/* One panel of a picture: lines and areas of bytes over time, with its own
 * axis of bytes. All panels of a picture share the axis of time below the last one. */

struct mt_curve {
	const char *name;        /* the class of its group */
	struct mt_series series; /* owned */
	/* the lower edge of the area, if it has points (as many as `series`); owned */
	struct mt_series base;
	struct mt_paint paint;
	double fill;                 /* alpha of the area below the line; 0: none */
	struct mt_shape_style shape; /* on the line at intervals, if the radius is not 0 */
};

#define MT_CURVES_MAX 16u

struct mt_panel {
	char title[96];
	struct mt_curve curves[MT_CURVES_MAX];
	size_t curves_count;
	double below_title; /* pixels between the title and the panel, for text of others */
	/* of the panel itself; the axis is left of it, the title above */
	struct mt_box box;
	struct mt_scale bytes; /* of the axis, once the field is drawn */
};

/* The shown time. `origin` is second 0 on CLOCK_REALTIME; as_clock: the axis shows times of day. */
struct mt_span {
	double low, high, origin;
	bool as_clock;
};

/* Draw the grid and the axis of bytes, and then the curves. What lies behind the curves may be
 * drawn between the two calls. */
void mt_panel_draw_field(struct mt_canvas *canvas, struct mt_panel *panel);
void mt_panel_draw_curves(struct mt_canvas *canvas, struct mt_panel *panel,
			  const struct mt_span *span);

/* Draws the axis of time below `y`; its labels end 20 pixels lower. */
void mt_panel_draw_time(struct mt_canvas *canvas, const struct mt_box *box, double y,
			const struct mt_span *span);

void mt_panel_free(struct mt_panel *panel);

/* ---- marks ---- */

/* Events in a picture: rounds and cleanups in lanes below the panels,
 * pressure as areas behind them, the bytes freed by the largest cleanups above them. */

#define MT_MARKS_LEGEND 6u /* items, the maximum */

struct mt_marks {
	const struct mt_recording *recording;
	uint64_t pid; /* 0: of all processes */
	uint64_t origin_ns;
	const struct mt_span *span;
};

/* Draws behind the curves of one panel: areas of pressure, and a line at each larger cleanup. */
void mt_marks_draw_behind(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box);

/* Returns the height of the lanes in pixels: one for rounds and one for cleanups, if there are
 * any. */
double mt_marks_height(const struct mt_marks *marks);

/* Draws the lanes from `y` down; `box` gives left and right. */
void mt_marks_draw_lanes(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double y);

/* Draws the bytes freed by the largest cleanups in one row above the panel. Text may extend
 * `beside` pixels to the left and right of the box. mt_marks_has_freed: whether there are any. */
bool mt_marks_has_freed(const struct mt_marks *marks);
void mt_marks_draw_freed(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double beside);

/* Writes the items of all kinds of events that exist, and returns how many. */
size_t mt_marks_legend(const struct mt_marks *marks, struct mt_legend_item *out);

/* left of the panels, for the labels of their axes */
#define MT_PICTURE_SIDE   78.0
#define MT_PICTURE_MARGIN 24.0

struct mt_picture_options {
	const char *path;
	FILE *page;             /* not NULL: a part of an HTML page: see struct mt_canvas_options */
	bool untitled;          /* without the two lines at the top: the page has them */
	const char *title;      /* NULL: the command */
	double width, height;   /* pixels; 0: as needed */
	double since_s, last_s; /* shown from this time on; of that the last part; 0: all */
	uint64_t pid;           /* 0: all processes of the recording */
	bool gpu, as_clock;
};

/* Draws a recording into the file options->path. INVALID: nothing to be drawn, or an unknown ending
 * of the name. SYSTEM: the file cannot be written. */
enum mt_err mt_picture_draw(const struct mt_recording *recording,
			    const struct mt_picture_options *options, struct mt_error_reason *why);

/* Draws a title and a line below it. Text that is too wide ends with "...". */
void mt_picture_draw_title(struct mt_canvas *canvas, double width, const char *title,
			   const char *below);

/* Draws several recordings: their RSS in one panel and their device memory in another, each from
 * its own start, and a table below. */
enum mt_err mt_comparison_draw(const struct mt_run *runs, size_t count,
			       const struct mt_compare_options *options,
			       struct mt_error_reason *why);

#endif
