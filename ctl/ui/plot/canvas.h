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

#include "ctl/output/error.h"
#include "ctl/metrics/scale.h"

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

/* Writes the file and frees the canvas, also where it fails. SYSTEM: cairo or the file system
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

#endif
