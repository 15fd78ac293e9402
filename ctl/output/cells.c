#include "ctl/output/cells.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

void mt_cells_start(struct mt_cells *canvas, int columns, int rows)
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
		canvas->cells[i] = (struct mt_cell){L' ', MT_STYLE_PLAIN};
}

struct mt_cells mt_cells_for_stdout(int columns, int rows)
{
	struct mt_cells cells = {.unicode = mt_text_locale_is_utf8(),
				 .coloured = *mt_table_colour(MT_COLOUR_HEAD) != '\0'};

	mt_cells_start(&cells, columns, rows);
	return cells;
}

void mt_cells_free(struct mt_cells *canvas)
{
	free(canvas->cells);
	canvas->cells = NULL;
}

static int end_of(const struct mt_cells *canvas, struct mt_cell_place at)
{
	return at.end > 0 && at.end < canvas->columns ? at.end : canvas->columns;
}

int mt_cells_put_glyph(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
		       wchar_t glyph)
{
	if (at.row < 0 || at.row >= canvas->rows || at.column < 0 ||
	    at.column >= end_of(canvas, at))
		return at.column;
	canvas->cells[(size_t)at.row * (size_t)canvas->columns + (size_t)at.column] =
		(struct mt_cell){glyph, style};
	return at.column + 1;
}

int mt_cells_put(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
		 const char *text)
{
	while (*text && at.column < end_of(canvas, at)) {
		mbstate_t state = {0};
		wchar_t glyph;
		size_t bytes = mbrtowc(&glyph, text, strnlen(text, MB_LEN_MAX), &state);
		bool is_valid = bytes >= 1 && bytes <= MB_LEN_MAX;

		/* a wide character would take two cells */
		mt_cells_put_glyph(canvas, at, style,
				   is_valid && wcwidth(glyph) == 1 ? glyph : L'?');
		text += is_valid ? bytes : 1;
		at.column++;
	}
	return at.column;
}

int mt_cells_put_figure(struct mt_cells *canvas, struct mt_cell_place at, const char *label,
			const char *value)
{
	at.column = mt_cells_put(canvas, at, MT_STYLE_LABEL, label);
	at.column = mt_cells_put(canvas, (struct mt_cell_place){at.row, at.column + 1, 0},
				 MT_STYLE_BOLD, value);
	return at.column + 2;
}

void mt_cells_put_right(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
			const char *text)
{
	int blanks = end_of(canvas, at) - at.column - (int)strlen(text);

	at.column += blanks > 0 ? blanks : 0;
	mt_cells_put(canvas, at, style, text);
}

void mt_cells_paint_row(struct mt_cells *canvas, int row, enum mt_cell_style style)
{
	if (row < 0 || row >= canvas->rows)
		return;
	for (int column = 0; column < canvas->columns; column++) {
		struct mt_cell *cell =
			&canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];

		if (!canvas->coloured || cell->style < MT_STYLE_LIVE ||
		    cell->style > MT_STYLE_OTHER)
			cell->style = style;
	}
}

const struct mt_cell *mt_cells_at(const struct mt_cells *canvas, int row, int column)
{
	return &canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column];
}

/* Writes a glyph in the locale, "?" if that has none. Returns its bytes. */
static size_t encode(wchar_t glyph, char out[MB_LEN_MAX])
{
	mbstate_t state = {0};
	size_t length = wcrtomb(out, glyph, &state);

	if (length != (size_t)-1)
		return length;
	*out = '?';
	return 1;
}

wchar_t mt_cells_level_glyph(bool unicode, int level)
{
	static const wchar_t blocks[] = L" \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588",
			     ascii[] = L" _..--==#";

	return (unicode ? blocks : ascii)[level < 0 ? 0 : level > 8 ? 8 : level];
}

struct mt_cell_colours mt_cells_colours(enum mt_cell_style style)
{
	enum { OWN = -1, BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE };
	static const struct mt_cell_colours colours[MT_STYLES_COUNT] = {
		[MT_STYLE_PLAIN] = {OWN, OWN},
		[MT_STYLE_DIM] = {OWN, OWN},
		[MT_STYLE_BOLD] = {OWN, OWN},
		[MT_STYLE_TITLE] = {WHITE, BLUE},
		[MT_STYLE_HEADING] = {BLACK, GREEN},
		[MT_STYLE_SORTED] = {BLACK, CYAN},
		[MT_STYLE_SELECTED] = {BLACK, CYAN},
		[MT_STYLE_LABEL] = {CYAN, OWN},
		[MT_STYLE_KEY] = {YELLOW, OWN},
		[MT_STYLE_GOOD] = {GREEN, OWN},
		[MT_STYLE_WARN] = {YELLOW, OWN},
		[MT_STYLE_BAD] = {RED, OWN},
		[MT_STYLE_TREND] = {CYAN, OWN},
		[MT_STYLE_LIVE] = {GREEN, OWN},
		[MT_STYLE_REUSABLE] = {YELLOW, OWN},
		[MT_STYLE_FILES] = {BLUE, OWN},
		[MT_STYLE_OTHER] = {MAGENTA, OWN},
		[MT_STYLE_REST] = {WHITE, OWN},
		[MT_STYLE_LIVE_REUSABLE] = {GREEN, YELLOW},
		[MT_STYLE_LIVE_FILES] = {GREEN, BLUE},
		[MT_STYLE_LIVE_OTHER] = {GREEN, MAGENTA},
		[MT_STYLE_REUSABLE_FILES] = {YELLOW, BLUE},
		[MT_STYLE_REUSABLE_OTHER] = {YELLOW, MAGENTA},
		[MT_STYLE_FILES_OTHER] = {BLUE, MAGENTA},
	};

	return colours[style];
}

static void write_colours(enum mt_cell_style style, FILE *to)
{
	struct mt_cell_colours colours = mt_cells_colours(style);

	fputs("\033[0", to);
	if (colours.ink >= 0)
		fprintf(to, ";%d", 30 + colours.ink);
	if (colours.paper >= 0)
		fprintf(to, ";%d", 40 + colours.paper);
	putc('m', to);
}

void mt_cells_write_row(const struct mt_cells *cells, int row, FILE *to)
{
	enum mt_cell_style style = MT_STYLE_PLAIN;
	char piece[MB_LEN_MAX];
	int last = cells->columns;

	while (last > 0 && mt_cells_at(cells, row, last - 1)->glyph == L' ')
		last--;
	for (int column = 0; column < last; column++) {
		const struct mt_cell *cell = mt_cells_at(cells, row, column);

		if (cells->coloured && cell->style != style)
			write_colours(cell->style, to);
		style = cell->style;
		fwrite(piece, 1, encode(cell->glyph, piece), to);
	}
	if (cells->coloured && style != MT_STYLE_PLAIN)
		write_colours(MT_STYLE_PLAIN, to);
}
