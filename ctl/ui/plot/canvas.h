/* ctl/ui/plot/canvas.h -- paper to draw on: an SVG, PNG or PDF file by the ending of its name.
 * Places are in pixels (PDF: points) from the upper left corner. Nothing is in the file before
 * mt_canvas_close has written all of it. PNG and PDF are cairo's. SVG is written here: cairo's has
 * letters as outlines, in which nobody can search, which a screen reader cannot read, and which
 * knows no groups for what belongs together. */
#ifndef MT_CTL_UI_PLOT_CANVAS_H
#define MT_CTL_UI_PLOT_CANVAS_H

#include <stddef.h>

#include "ctl/output/error.h"
#include "ctl/ui/plot/canvas_types.h"

struct mt_canvas;

/* INVALID: another ending. */
enum mt_err mt_canvas_open(const struct mt_canvas_options *options, struct mt_canvas **out,
			   struct mt_why *why);

/* Writes the file, and frees. */
enum mt_err mt_canvas_close(struct mt_canvas *canvas, struct mt_why *why);

/* What is drawn until the end belongs together. `name` is a word; `title` is shown where the mouse
 * rests on it, or NULL. */
void mt_canvas_begin(struct mt_canvas *canvas, const char *name, const char *title);
void mt_canvas_end(struct mt_canvas *canvas);

void mt_canvas_line(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		    const struct mt_paint *paint);
void mt_canvas_area(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		    const struct mt_paint *paint);

/* y is the line that letters stand on. Text is UTF-8; it is escaped here. */
void mt_canvas_text(struct mt_canvas *canvas, struct mt_canvas_point at, const char *text,
		    const struct mt_font *font);

double mt_canvas_width_of(struct mt_canvas *canvas, const char *text, const struct mt_font *font);

#endif
