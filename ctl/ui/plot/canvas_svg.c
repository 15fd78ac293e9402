/* ctl/ui/plot/canvas_svg.c -- a canvas that is SVG 1.1: text as text, groups with a class and a
 * title. */
#include "ctl/ui/plot/canvas_kind.h"

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
}

static void put_element(FILE *out, const char *element, const char *text)
{
	fprintf(out, "<%s>", element);
	put_escaped(out, text);
	fprintf(out, "</%s>\n", element);
}

static void open_svg(struct mt_canvas *canvas, const struct mt_canvas_options *options)
{
	canvas->surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
	canvas->cairo = cairo_create(canvas->surface);
	fprintf(canvas->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"DejaVu Sans, Verdana, Arial, "
		"sans-serif\">\n",
		options->width, options->height, options->width, options->height);
	put_element(canvas->out, "title", options->title);
	/* whatever page it stands on */
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", canvas->out);
}

static void begin_svg(struct mt_canvas *canvas, const char *name, const char *title)
{
	fputs("<g class=\"", canvas->out);
	put_escaped(canvas->out, name);
	fputs("\">\n", canvas->out);
	if (title)
		put_element(canvas->out, "title", title);
}

static void end_svg(struct mt_canvas *canvas)
{
	fputs("</g>\n", canvas->out);
}

static void put_stroke(FILE *out, const struct mt_paint *paint)
{
	const double *dashes;
	size_t count = mt_canvas_dashes(paint->dash, &dashes);

	fprintf(out,
		"fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.4g\" stroke-linejoin=\"round\"",
		(unsigned)paint->rgb, paint->width);
	if (paint->alpha < 1)
		fprintf(out, " stroke-opacity=\"%.3g\"", paint->alpha);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%.3g%s", i ? "," : " stroke-dasharray=\"", dashes[i],
			i + 1 == count ? "\"" : "");
}

static void shape_svg(struct mt_canvas *canvas, const struct mt_canvas_point *places, size_t count,
		      const struct mt_paint *paint, bool filled)
{
	FILE *out = canvas->out;

	fputs("<path ", out);
	if (filled) {
		fprintf(out, "fill=\"#%06x\"", (unsigned)paint->rgb);
		if (paint->alpha < 1)
			fprintf(out, " fill-opacity=\"%.3g\"", paint->alpha);
	} else {
		put_stroke(out, paint);
	}
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%.1f %.1f", i ? "L" : " d=\"M", places[i].x, places[i].y);
	fputs(filled ? "Z\"/>\n" : "\"/>\n", out);
}

static void text_svg(struct mt_canvas *canvas, struct mt_canvas_point at, const char *text,
		     const struct mt_font *font)
{
	static const char *const anchors[] = {"start", "middle", "end"};

	fprintf(canvas->out,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.4g\"%s fill=\"#%06x\" "
		"text-anchor=\"%s\">",
		at.x, at.y, font->size, font->bold ? " font-weight=\"bold\"" : "",
		(unsigned)font->rgb, anchors[font->anchor]);
	put_escaped(canvas->out, text);
	fputs("</text>\n", canvas->out);
}

static cairo_status_t close_svg(struct mt_canvas *canvas)
{
	fputs("</svg>\n", canvas->out);
	return CAIRO_STATUS_SUCCESS;
}

const struct mt_canvas_kind mt_canvas_svg = {open_svg,  begin_svg, end_svg,
					     shape_svg, text_svg,  close_svg};
