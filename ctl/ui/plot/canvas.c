/* ctl/ui/plot/canvas.c -- see canvas.h: what all kinds share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/outfile.h"
#include "ctl/ui/plot/canvas.h"
#include "ctl/ui/plot/canvas_kind.h"
#include "ctl/output/text.h"

size_t mt_canvas_dashes(enum mt_dash dash, const double **out)
{
	static const double dashes[MT_DASH_COUNT][4] = {[MT_DASH_LONG] = {7, 4},
							[MT_DASH_DOTS] = {1.5, 3},
							[MT_DASH_MIXED] = {8, 3, 1.5, 3}};

	*out = dashes[dash];
	return dash == MT_DASH_NONE ? 0 : dash == MT_DASH_MIXED ? 4 : 2;
}

enum mt_err mt_canvas_open(const struct mt_canvas_options *options, struct mt_canvas **out,
			   struct mt_why *why)
{
	static const struct {
		const char *ending;
		const struct mt_canvas_kind *kind;
	} kinds[] = {{".svg", &mt_canvas_svg}, {".png", &mt_canvas_png}, {".pdf", &mt_canvas_pdf}};
	struct mt_canvas *canvas;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!mt_text_ends_with(options->path, kinds[i].ending))
			continue;
		canvas = mt_error_check_memory(calloc(1, sizeof(*canvas)));
		canvas->kind = kinds[i].kind;
		canvas->path = options->path;
		canvas->width = options->width;
		canvas->height = options->height;
		canvas->out =
			mt_error_check_memory(open_memstream(&canvas->memory, &canvas->bytes));
		canvas->kind->open(canvas, options);
		*out = canvas;
		return MT_ERR_OK;
	}
	return mt_error_because(why, MT_ERR_INVALID, "%.200s: pictures end with .svg, .png or .pdf",
				options->path);
}

static enum mt_err write_file(const struct mt_canvas *canvas, struct mt_why *why)
{
	int fd = -1;
	enum mt_err error = mt_outfile_open(canvas->path, 0666, &fd, why);
	FILE *file;
	bool whole;

	if (error)
		return error;
	file = mt_error_check_memory(fdopen(fd, "w"));
	whole = fwrite(canvas->memory, 1, canvas->bytes, file) == canvas->bytes;
	if (fclose(file) != 0 || !whole)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", canvas->path,
					strerror(errno));
	return MT_ERR_OK;
}

enum mt_err mt_canvas_close(struct mt_canvas *canvas, struct mt_why *why)
{
	cairo_status_t status;
	enum mt_err error;

	status = canvas->kind->close(canvas);
	if (!status)
		status = cairo_status(canvas->cairo);
	cairo_destroy(canvas->cairo);
	cairo_surface_destroy(canvas->surface);
	if (fclose(canvas->out) != 0)
		mt_error_check_memory(NULL);
	error = status ? mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", canvas->path,
					  cairo_status_to_string(status))
		       : write_file(canvas, why);
	free(canvas->memory);
	free(canvas);
	return error;
}

void mt_canvas_begin(struct mt_canvas *canvas, const char *name, const char *title)
{
	canvas->kind->begin(canvas, name, title);
}

void mt_canvas_end(struct mt_canvas *canvas)
{
	canvas->kind->end(canvas);
}

void mt_canvas_line(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		    const struct mt_paint *paint)
{
	if (count)
		canvas->kind->shape(canvas, places, count, paint, false);
}

void mt_canvas_area(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		    const struct mt_paint *paint)
{
	if (count)
		canvas->kind->shape(canvas, places, count, paint, true);
}

void mt_canvas_text(struct mt_canvas *canvas, struct mt_canvas_point at, const char *text,
		    const struct mt_font *font)
{
	canvas->kind->text(canvas, at, text, font);
}

double mt_canvas_width_of(struct mt_canvas *canvas, const char *text, const struct mt_font *font)
{
	cairo_text_extents_t extents;

	cairo_select_font_face(canvas->cairo, MT_CANVAS_FONT, CAIRO_FONT_SLANT_NORMAL,
			       font->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
	cairo_set_font_size(canvas->cairo, font->size);
	cairo_text_extents(canvas->cairo, text, &extents);
	return extents.x_advance;
}
