/* ctl/ui/plot/canvas_cairo.c -- canvases that cairo draws: PNG and PDF. */
#include <cairo-pdf.h>

#include "ctl/ui/plot/canvas.h"
#include "ctl/ui/plot/canvas_kind.h"

static cairo_status_t put(void *canvas, const unsigned char *data, unsigned length)
{
	return fwrite(data, 1, length, ((struct mt_canvas *)canvas)->out) == length
		       ? CAIRO_STATUS_SUCCESS
		       : CAIRO_STATUS_WRITE_ERROR;
}

/* Paper is white; that of PDF is without our doing. */
static void open_png(struct mt_canvas *canvas, const struct mt_canvas_options *options)
{
	canvas->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)options->width,
						     (int)options->height);
	canvas->cairo = cairo_create(canvas->surface);
	cairo_set_source_rgb(canvas->cairo, 1, 1, 1);
	cairo_paint(canvas->cairo);
}

static void open_pdf(struct mt_canvas *canvas, const struct mt_canvas_options *options)
{
	canvas->surface =
		cairo_pdf_surface_create_for_stream(put, canvas, options->width, options->height);
	cairo_pdf_surface_set_metadata(canvas->surface, CAIRO_PDF_METADATA_TITLE, options->title);
	cairo_pdf_surface_set_metadata(canvas->surface, CAIRO_PDF_METADATA_CREATOR,
				       "mtctl " MT_VERSION);
	canvas->cairo = cairo_create(canvas->surface);
}

/* Groups are of no use here. */
static void begin(struct mt_canvas *canvas, const char *name, const char *title)
{
	(void)canvas;
	(void)name;
	(void)title;
}

static void end(struct mt_canvas *canvas)
{
	(void)canvas;
}

static void set_colour(cairo_t *cairo, uint32_t rgb, double alpha)
{
	cairo_set_source_rgba(cairo, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
			      (rgb & 255) / 255.0, alpha);
}

static void shape(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		  const struct mt_paint *paint, bool filled)
{
	cairo_t *cairo = canvas->cairo;
	const double *dashes;
	size_t dashes_count = mt_canvas_dashes(paint->dash, &dashes);

	cairo_move_to(cairo, places[0].x, places[0].y);
	for (size_t i = 1; i < count; i++)
		cairo_line_to(cairo, places[i].x, places[i].y);
	set_colour(cairo, paint->rgb, paint->alpha);
	if (filled) {
		cairo_close_path(cairo);
		cairo_fill(cairo);
		return;
	}
	cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
	cairo_set_line_width(cairo, paint->width);
	cairo_set_dash(cairo, dashes, (int)dashes_count, 0);
	cairo_stroke(cairo);
}

static void text(struct mt_canvas *canvas, struct mt_canvas_point at, const char *words,
		 const struct mt_font *font)
{
	/* Selects the font as well. */
	double width = mt_canvas_width_of(canvas, words, font);

	set_colour(canvas->cairo, font->rgb, 1);
	cairo_move_to(canvas->cairo,
		      at.x - width * (font->anchor == MT_ANCHOR_END      ? 1
				      : font->anchor == MT_ANCHOR_MIDDLE ? 0.5
									 : 0),
		      at.y);
	cairo_show_text(canvas->cairo, words);
}

static cairo_status_t close_png(struct mt_canvas *canvas)
{
	cairo_surface_flush(canvas->surface);
	return cairo_surface_write_to_png_stream(canvas->surface, put, canvas);
}

static cairo_status_t close_pdf(struct mt_canvas *canvas)
{
	cairo_show_page(canvas->cairo);
	cairo_surface_finish(canvas->surface);
	return cairo_surface_status(canvas->surface);
}

const struct mt_canvas_kind mt_canvas_png = {open_png, begin, end, shape, text, close_png};
const struct mt_canvas_kind mt_canvas_pdf = {open_pdf, begin, end, shape, text, close_pdf};
