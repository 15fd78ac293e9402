#include "ctl/ui/plot/plot.h"

#include <cairo-pdf.h>
#include <math.h>
#include <stdlib.h>

#include "ctl/output/outfile.h"
#include "ctl/output/text.h"

enum format { SVG, PNG, PDF };

struct mt_canvas {
	enum format format;
	const char *path;
	FILE *page; /* NULL: the file `path` */
	FILE *out;  /* in memory */
	char *memory;
	size_t bytes;
	cairo_surface_t *surface;
	cairo_t *cairo; /* of SVG: measures text */
};

/* ---- SVG ---- */

static void put_title(FILE *out, const char *text)
{
	fputs("<title>", out);
	mt_markup_text(out, text);
	fputs("</title>\n", out);
}

static void begin_svg(FILE *out, const struct mt_canvas_options *options)
{
	if (!options->page)
		fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"DejaVu Sans, Verdana, Arial, "
		"sans-serif\">\n",
		options->width, options->height, options->width, options->height);
	put_title(out, options->title);
	/* white, whatever shows it; a page has colours of its own */
	if (!options->page)
		fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", out);
}

/* The lengths of dashes and gaps; returns how many. */
static size_t dash_lengths(enum mt_dash dash, const double **out)
{
	static const double lengths[MT_DASH_COUNT][4] = {[MT_DASH_LONG] = {7, 4},
							 [MT_DASH_DOTS] = {1.5, 3},
							 [MT_DASH_MIXED] = {8, 3, 1.5, 3}};

	*out = lengths[dash];
	return dash == MT_DASH_NONE ? 0 : dash == MT_DASH_MIXED ? 4 : 2;
}

static void put_stroke(FILE *out, const struct mt_paint *paint)
{
	const double *dashes;
	size_t count = dash_lengths(paint->dash, &dashes);

	fprintf(out,
		"fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.4g\" stroke-linejoin=\"round\"",
		(unsigned)paint->rgb, paint->width);
	if (paint->alpha < 1)
		fprintf(out, " stroke-opacity=\"%.3g\"", paint->alpha);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%.3g%s", i ? "," : " stroke-dasharray=\"", dashes[i],
			i + 1 == count ? "\"" : "");
}

static void put_path(FILE *out, const struct mt_point *points, size_t count,
		     const struct mt_paint *paint, bool filled)
{
	fputs("<path ", out);
	if (filled) {
		fprintf(out, "fill=\"#%06x\"", (unsigned)paint->rgb);
		if (paint->alpha < 1)
			fprintf(out, " fill-opacity=\"%.3g\"", paint->alpha);
	} else {
		put_stroke(out, paint);
	}
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%.1f %.1f", i ? "L" : " d=\"M", points[i].x, points[i].y);
	fputs(filled ? "Z\"/>\n" : "\"/>\n", out);
}

static void put_text(FILE *out, struct mt_point at, const char *text, const struct mt_font *font)
{
	static const char *const anchors[] = {"start", "middle", "end"};

	fprintf(out,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.4g\"%s fill=\"#%06x\" "
		"text-anchor=\"%s\">",
		at.x, at.y, font->size, font->bold ? " font-weight=\"bold\"" : "",
		(unsigned)font->rgb, anchors[font->anchor]);
	mt_markup_text(out, text);
	fputs("</text>\n", out);
}

/* ---- PNG and PDF ---- */

static cairo_status_t write_stream(void *out, const unsigned char *data, unsigned length)
{
	return fwrite(data, 1, length, out) == length ? CAIRO_STATUS_SUCCESS
						      : CAIRO_STATUS_WRITE_ERROR;
}

static void set_colour(cairo_t *cairo, uint32_t rgb, double alpha)
{
	cairo_set_source_rgba(cairo, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
			      (rgb & 255) / 255.0, alpha);
}

static void draw_path(cairo_t *cairo, const struct mt_point *points, size_t count,
		      const struct mt_paint *paint, bool filled)
{
	const double *dashes;
	size_t dashes_count = dash_lengths(paint->dash, &dashes);

	cairo_move_to(cairo, points[0].x, points[0].y);
	for (size_t i = 1; i < count; i++)
		cairo_line_to(cairo, points[i].x, points[i].y);
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

/* ---- all formats ---- */

static void start(struct mt_canvas *canvas, const struct mt_canvas_options *options)
{
	bool is_png = canvas->format == PNG;

	canvas->path = options->path;
	canvas->page = options->page;
	canvas->out = mt_error_check_memory(open_memstream(&canvas->memory, &canvas->bytes));
	if (canvas->format == PDF) {
		canvas->surface = cairo_pdf_surface_create_for_stream(
			write_stream, canvas->out, options->width, options->height);
		cairo_pdf_surface_set_metadata(canvas->surface, CAIRO_PDF_METADATA_TITLE,
					       options->title);
		cairo_pdf_surface_set_metadata(canvas->surface, CAIRO_PDF_METADATA_CREATOR,
					       "mtctl " MT_VERSION);
	} else {
		canvas->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24,
							     is_png ? (int)options->width : 1,
							     is_png ? (int)options->height : 1);
	}
	canvas->cairo = cairo_create(canvas->surface);
	if (canvas->format == SVG)
		begin_svg(canvas->out, options);
	if (is_png) {
		set_colour(canvas->cairo, 0xffffff, 1);
		cairo_paint(canvas->cairo);
	}
}

enum mt_err mt_canvas_open(const struct mt_canvas_options *options, struct mt_canvas **out,
			   struct mt_error_reason *why)
{
	static const char *const endings[] = {[SVG] = ".svg", [PNG] = ".png", [PDF] = ".pdf"};

	for (int format = SVG; format <= PDF; format++) {
		if (!options->page && !mt_text_ends_with(options->path, endings[format]))
			continue;
		*out = mt_error_check_memory(calloc(1, sizeof(**out)));
		(*out)->format = (enum format)format;
		start(*out, options);
		return MT_ERR_OK;
	}
	return mt_error_because(why, MT_ERR_INVALID, "%.200s: pictures end with .svg, .png or .pdf",
				options->path);
}

/* Whoever has opened the page looks at its errors (ferror(3)). */
static enum mt_err write_file(const struct mt_canvas *canvas, struct mt_error_reason *why)
{
	FILE *file = canvas->page;
	enum mt_err error = file ? MT_ERR_OK : mt_outfile_stream(canvas->path, 0666, &file, why);

	if (error)
		return error;
	fwrite(canvas->memory, 1, canvas->bytes, file);
	return canvas->page ? MT_ERR_OK : mt_outfile_finish(file, canvas->path, why);
}

static cairo_status_t finish(struct mt_canvas *canvas)
{
	cairo_status_t status = CAIRO_STATUS_SUCCESS;

	if (canvas->format == SVG)
		fputs("</svg>\n", canvas->out);
	if (canvas->format == PDF)
		cairo_show_page(canvas->cairo);
	if (canvas->format == PNG) {
		cairo_surface_flush(canvas->surface);
		status = cairo_surface_write_to_png_stream(canvas->surface, write_stream,
							   canvas->out);
	}
	cairo_surface_finish(canvas->surface);
	return status ? status : cairo_surface_status(canvas->surface);
}

enum mt_err mt_canvas_close(struct mt_canvas *canvas, struct mt_error_reason *why)
{
	cairo_status_t drawn = cairo_status(canvas->cairo), finished = finish(canvas);
	enum mt_err error;

	cairo_destroy(canvas->cairo);
	cairo_surface_destroy(canvas->surface);
	if (fclose(canvas->out) != 0)
		mt_error_check_memory(NULL);
	if (drawn || finished)
		error = mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s",
					 canvas->page ? "the picture" : canvas->path,
					 cairo_status_to_string(drawn ? drawn : finished));
	else
		error = write_file(canvas, why);
	free(canvas->memory);
	free(canvas);
	return error;
}

void mt_canvas_begin(struct mt_canvas *canvas, const char *name, const char *title)
{
	if (canvas->format != SVG)
		return;
	fprintf(canvas->out, "<g class=\"%s\">\n", name);
	if (title)
		put_title(canvas->out, title);
}

void mt_canvas_end(struct mt_canvas *canvas)
{
	if (canvas->format == SVG)
		fputs("</g>\n", canvas->out);
}

static void draw_shape(struct mt_canvas *canvas, const struct mt_point *points, size_t count,
		       const struct mt_paint *paint, bool filled)
{
	if (count && canvas->format == SVG)
		put_path(canvas->out, points, count, paint, filled);
	else if (count)
		draw_path(canvas->cairo, points, count, paint, filled);
}

void mt_canvas_line(struct mt_canvas *canvas, const struct mt_point *points, size_t count,
		    const struct mt_paint *paint)
{
	draw_shape(canvas, points, count, paint, false);
}

void mt_canvas_area(struct mt_canvas *canvas, const struct mt_point *points, size_t count,
		    const struct mt_paint *paint)
{
	draw_shape(canvas, points, count, paint, true);
}

double mt_canvas_text_width(struct mt_canvas *canvas, const char *text, const struct mt_font *font)
{
	cairo_text_extents_t extents;

	cairo_select_font_face(canvas->cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
			       font->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
	cairo_set_font_size(canvas->cairo, font->size);
	cairo_text_extents(canvas->cairo, text, &extents);
	return extents.x_advance;
}

void mt_canvas_text(struct mt_canvas *canvas, struct mt_point at, const char *text,
		    const struct mt_font *font)
{
	static const double before[] = {0, 0.5, 1}; /* by enum mt_anchor: this part of the width */
	double width;

	if (canvas->format == SVG) {
		put_text(canvas->out, at, text, font);
		return;
	}
	width = mt_canvas_text_width(canvas, text, font); /* selects the font, too */
	set_colour(canvas->cairo, font->rgb, 1);
	cairo_move_to(canvas->cairo, at.x - width * before[font->anchor], at.y);
	cairo_show_text(canvas->cairo, text);
}

/* ---- palette ---- */

#define CORNERS_MAX 16u

static size_t fill_corners(struct mt_point at, const struct mt_shape_style *style,
			   struct mt_point *out)
{
	/* Corners by their angle in eighths of a turn from the right, clockwise. A bar is a thin
	 * box. */
	static const struct {
		size_t count;
		double first, stretch;
	} corners[MT_SHAPE_COUNT] = {
		[MT_SHAPE_CIRCLE] = {16, 0, 1},   [MT_SHAPE_TRIANGLE] = {3, 6, 1.15},
		[MT_SHAPE_DIAMOND] = {4, 0, 1.2}, [MT_SHAPE_SQUARE] = {4, 1, 1.2},
		[MT_SHAPE_DOWN] = {3, 2, 1.15},   [MT_SHAPE_BAR] = {4, 1, 1}};
	size_t count = corners[style->shape].count;

	for (size_t i = 0; i < count; i++) {
		double angle = (corners[style->shape].first / 8 + (double)i / (double)count) * 2 *
			       3.14159265358979;
		double wide = style->shape == MT_SHAPE_BAR ? 0.3 : 1;

		out[i].x = at.x + cos(angle) * style->radius * corners[style->shape].stretch * wide;
		out[i].y = at.y + sin(angle) * style->radius * corners[style->shape].stretch;
	}
	return count;
}

void mt_shape_draw(struct mt_canvas *canvas, struct mt_point at, const struct mt_shape_style *style)
{
	const struct mt_paint inside = {style->hollow ? 0xffffffu : style->rgb, 1, 0, MT_DASH_NONE},
			      edge = {style->rgb, 1, 1.4, MT_DASH_NONE};
	struct mt_point corners[CORNERS_MAX + 1];
	size_t count = fill_corners(at, style, corners);

	mt_canvas_area(canvas, corners, count, &inside);
	corners[count] = corners[0];
	if (style->hollow)
		mt_canvas_line(canvas, corners, count + 1, &edge);
}

void mt_hatch_draw(struct mt_canvas *canvas, const struct mt_box *box, const struct mt_paint *paint,
		   double step)
{
	const struct mt_point corners[] = {{box->left, box->top},
					   {box->right, box->top},
					   {box->right, box->bottom},
					   {box->left, box->bottom}};
	const struct mt_paint stripe = {paint->rgb, 0.55, 0.8, MT_DASH_NONE};
	double height = box->bottom - box->top;

	mt_canvas_area(canvas, corners, 4, paint);
	/* Each stripe runs from the upper right to the lower left, cut at the sides. */
	for (double x = box->left + step / 2; x < box->right + height; x += step) {
		double above = x > box->right ? x - box->right : 0,
		       below = x - height < box->left ? x - box->left : height;
		const struct mt_point ends[] = {{x - above, box->top + above},
						{x - below, box->top + below}};

		mt_canvas_line(canvas, ends, 2, &stripe);
	}
}

/* ---- legend ---- */

#define ROW   20.0
#define APART 22.0 /* between items */
#define GAP   7.0  /* between a symbol and its text */

static double swatch_width(const struct mt_legend_item *item)
{
	return item->kind == MT_LEGEND_SHAPE ? 12 : MT_LEGEND_SWATCH;
}

void mt_legend_swatch(struct mt_canvas *canvas, struct mt_point at,
		      const struct mt_legend_item *item)
{
	const struct mt_box box = {at.x, at.y - 6, at.x + MT_LEGEND_SWATCH, at.y + 6};
	const struct mt_point edge[] = {{box.left, box.top}, {box.right, box.top}},
			      line[] = {{at.x, at.y}, {box.right, at.y}};
	const struct mt_point corners[] = {
		edge[0], edge[1], {box.right, box.bottom}, {box.left, box.bottom}};
	const struct mt_point middle = {at.x + swatch_width(item) / 2, at.y};
	const struct mt_paint fill = {item->paint.rgb, item->fill, 0, MT_DASH_NONE};

	if (item->kind == MT_LEGEND_AREA) {
		mt_canvas_area(canvas, corners, 4, &fill);
		mt_canvas_line(canvas, edge, 2, &item->paint);
	} else if (item->kind == MT_LEGEND_LINE) {
		mt_canvas_line(canvas, line, 2, &item->paint);
	} else if (item->kind == MT_LEGEND_HATCH) {
		mt_hatch_draw(canvas, &box, &item->paint, item->step);
	}
	if (item->shape.radius > 0)
		mt_shape_draw(canvas, middle, &item->shape);
}

double mt_legend_draw(struct mt_canvas *canvas, const struct mt_box *box,
		      const struct mt_legend_item *items, size_t count)
{
	const struct mt_font font = {12, false, MT_RGB_TEXT, MT_ANCHOR_START};
	struct mt_point at = {box->left, box->top + ROW / 2};

	mt_canvas_begin(canvas, "legend", NULL);
	for (size_t i = 0; i < count; i++) {
		double sample = swatch_width(&items[i]) + GAP;
		double width = sample + mt_canvas_text_width(canvas, items[i].text, &font);

		if (at.x > box->left && at.x + width > box->right)
			at = (struct mt_point){box->left, at.y + ROW};
		mt_legend_swatch(canvas, at, &items[i]);
		mt_canvas_text(canvas, (struct mt_point){at.x + sample, at.y + 4}, items[i].text,
			       &font);
		at.x += width + APART;
	}
	mt_canvas_end(canvas);
	return at.y + ROW / 2;
}
