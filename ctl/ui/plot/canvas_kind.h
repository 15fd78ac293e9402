/* ctl/ui/plot/canvas_kind.h -- what a kind of canvas does. For canvas*.c alone. */
#ifndef MT_CTL_UI_PLOT_CANVAS_KIND_H
#define MT_CTL_UI_PLOT_CANVAS_KIND_H

#include <cairo.h>
#include <stdio.h>

#include "ctl/ui/plot/canvas_types.h"

struct mt_canvas;

struct mt_canvas_kind {
	void (*open)(struct mt_canvas *canvas, const struct mt_canvas_options *options);
	void (*begin)(struct mt_canvas *canvas, const char *name, const char *title);
	void (*end)(struct mt_canvas *canvas);
	void (*shape)(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		      const struct mt_paint *paint, bool filled);
	void (*text)(struct mt_canvas *canvas, struct mt_canvas_point at, const char *text,
		     const struct mt_font *font);
	cairo_status_t (*close)(struct mt_canvas *canvas); /* everything is in `out` then */
};

struct mt_canvas {
	const struct mt_canvas_kind *kind;
	const char *path;
	double width, height;
	FILE *out; /* memory */
	char *memory;
	size_t bytes;
	cairo_surface_t *surface;
	cairo_t *cairo; /* of SVG: to measure text with */
};

#define MT_CANVAS_FONT "DejaVu Sans"

extern const struct mt_canvas_kind mt_canvas_svg, mt_canvas_png, mt_canvas_pdf;

/* Lengths of dashes and of what is between them; how many. */
size_t mt_canvas_dashes(enum mt_dash dash, const double **out);

#endif
