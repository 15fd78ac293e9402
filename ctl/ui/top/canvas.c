#include "ctl/ui/top/canvas.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "ctl/output/error.h"

void mt_top_canvas_start(struct mt_top_canvas *canvas, int columns, int rows)
{
	size_t count;

	columns = columns > 0 ? columns : 1;
	rows = rows > 0 ? rows : 1;
	count = (size_t)columns * (size_t)rows;
	if (columns != canvas->columns || rows != canvas->rows || !canvas->cells) {
		free(canvas->cells);
		canvas->cells = mt_error_check_memory(calloc(count, sizeof(*canvas->cells)));
		canvas->columns = columns;
		canvas->rows = rows;
	}
	for (size_t i = 0; i < count; i++)
		canvas->cells[i] = (struct mt_top_cell){L' ', MT_STYLE_PLAIN};
}

void mt_top_canvas_free(struct mt_top_canvas *canvas)
{
	free(canvas->cells);
	canvas->cells = NULL;
}

static int end_of(const struct mt_top_canvas *canvas, struct mt_top_at at)
{
	return at.end > 0 && at.end < canvas->columns ? at.end : canvas->columns;
}

int mt_top_put_glyph(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
		     wchar_t glyph)
{
	if (at.row < 0 || at.row >= canvas->rows || at.column < 0 ||
	    at.column >= end_of(canvas, at))
		return at.column;
	canvas->cells[(size_t)at.row * (size_t)canvas->columns + (size_t)at.column] =
		(struct mt_top_cell){glyph, style};
	return at.column + 1;
}

int mt_top_put(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
	       const char *text)
{
	while (*text && at.column < end_of(canvas, at)) {
		mbstate_t state = {0};
		wchar_t glyph;
		size_t bytes = mbrtowc(&glyph, text, strnlen(text, MB_LEN_MAX), &state);
		bool is_valid = bytes >= 1 && bytes <= MB_LEN_MAX;

		/* a wide character would take two cells */
		mt_top_put_glyph(canvas, at, style, is_valid && wcwidth(glyph) == 1 ? glyph : L'?');
		at.column++;
		text += is_valid ? bytes : 1;
	}
	return at.column;
}

int mt_top_put_figure(struct mt_top_canvas *canvas, struct mt_top_at at, const char *label,
		      const char *value)
{
	at.column = mt_top_put(canvas, at, MT_STYLE_LABEL, label);
	at.column = mt_top_put(canvas, (struct mt_top_at){at.row, at.column + 1, 0}, MT_STYLE_BOLD,
			       value);
	return at.column + 2;
}

void mt_top_put_right(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
		      const char *text)
{
	int blanks = end_of(canvas, at) - at.column - (int)strlen(text);

	at.column += blanks > 0 ? blanks : 0;
	mt_top_put(canvas, at, style, text);
}

void mt_top_paint_row(struct mt_top_canvas *canvas, int row, enum mt_top_style style)
{
	if (row < 0 || row >= canvas->rows)
		return;
	for (int column = 0; column < canvas->columns; column++) {
		struct mt_top_cell *cell =
			&canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];

		if (!canvas->coloured || cell->style < MT_STYLE_LIVE ||
		    cell->style > MT_STYLE_OTHER)
			cell->style = style;
	}
}

const struct mt_top_cell *mt_top_cell(const struct mt_top_canvas *canvas, int row, int column)
{
	return &canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];
}

static int last_used(const struct mt_top_canvas *canvas, int row)
{
	int column = canvas->columns;

	while (column > 0 && mt_top_cell(canvas, row, column - 1)->glyph == L' ')
		column--;
	return column;
}

void mt_top_canvas_line(const struct mt_top_canvas *canvas, int row, char *out, size_t out_bytes)
{
	char piece[MB_LEN_MAX];
	int last = last_used(canvas, row);
	size_t used = 0;

	for (int column = 0; column < last; column++) {
		mbstate_t state = {0};
		size_t length = wcrtomb(piece, mt_top_cell(canvas, row, column)->glyph, &state);

		if (length == (size_t)-1) {
			piece[0] = '?';
			length = 1;
		}
		if (used + length + 1 > out_bytes)
			break;
		memcpy(out + used, piece, length);
		used += length;
	}
	out[used] = '\0';
}
