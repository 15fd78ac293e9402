/* ctl/output/cells.h -- the painter of terminals: a grid of characters, each with a style.
 * Everything is drawn here first, so that a terminal, --once and a test see the same. It knows no
 * terminal. Text that is put here loses whatever is not printable ASCII (text of processes is clean
 * before, too); glyphs of the view itself are wide characters. For one thread. */
#ifndef MT_CTL_OUTPUT_CELLS_H
#define MT_CTL_OUTPUT_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <wchar.h>

enum mt_cell_style {
	MT_STYLE_PLAIN,
	MT_STYLE_DIM, /* asleep, or shown only for the tree */
	MT_STYLE_BOLD,
	MT_STYLE_TITLE,
	MT_STYLE_HEADING,
	MT_STYLE_SORTED, /* the heading of the sorted column; the selected tab */
	MT_STYLE_SELECTED,
	MT_STYLE_LABEL,
	MT_STYLE_KEY,
	MT_STYLE_GOOD,
	MT_STYLE_WARN,
	MT_STYLE_BAD,
	MT_STYLE_TREND,
	/* parts of a bar: those of enum mt_memory_part, in its order, and what is in none */
	MT_STYLE_LIVE,
	MT_STYLE_REUSABLE,
	MT_STYLE_FILES,
	MT_STYLE_OTHER,
	MT_STYLE_REST,
	/* a cell with two of the parts: the first one below, in the colour of the ink */
	MT_STYLE_LIVE_REUSABLE,
	MT_STYLE_LIVE_FILES,
	MT_STYLE_LIVE_OTHER,
	MT_STYLE_REUSABLE_FILES,
	MT_STYLE_REUSABLE_OTHER,
	MT_STYLE_FILES_OTHER,
	MT_STYLES_COUNT
};

struct mt_cell {
	wchar_t glyph;
	enum mt_cell_style style;
};

struct mt_cells {
	int columns, rows;
	bool unicode;  /* the locale has block and line characters */
	bool coloured; /* styles are visible; else characters tell the parts of a bar apart */
	struct mt_cell *cells;
};

/* A position for text. Text is cut at column `end`; 0: at the edge of the canvas. */
struct mt_cell_place {
	int row, column, end;
};

/* Makes the canvas blank, of this size, at least 1 x 1. It must be zeroed before its first start.
 */
void mt_cells_start(struct mt_cells *canvas, int columns, int rows);

/* Returns blank cells for stdout: coloured if that is a terminal which shows colours, in block
 * characters if the locale has them. The caller frees with mt_cells_free. */
struct mt_cells mt_cells_for_stdout(int columns, int rows);
void mt_cells_free(struct mt_cells *canvas);

/* Put text or one glyph, and return the column after it. Outside the canvas nothing is put. */
int mt_cells_put(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
		 const char *text);
int mt_cells_put_glyph(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
		       wchar_t glyph);

/* Puts a label and its value, and returns the column for the next one. */
int mt_cells_put_figure(struct mt_cells *canvas, struct mt_cell_place at, const char *label,
			const char *value);

/* Puts text that ends before at.end. Text that is too long loses its end. */
void mt_cells_put_right(struct mt_cells *canvas, struct mt_cell_place at, enum mt_cell_style style,
			const char *text);

/* Gives every cell of the row this style. If styles are visible, parts of memory keep theirs. */
void mt_cells_paint_row(struct mt_cells *canvas, int row, enum mt_cell_style style);

const struct mt_cell *mt_cells_at(const struct mt_cells *canvas, int row, int column);

/* Returns the character that is `level` eighths high, 0 to 8. */
wchar_t mt_cells_level_glyph(bool unicode, int level);

/* The colours of a style by their numbers on a terminal (0 black to 7 white); -1: the terminal's
 * own. */
struct mt_cell_colours {
	int ink, paper;
};
struct mt_cell_colours mt_cells_colours(enum mt_cell_style style);

/* Writes one row as text of the locale, without blanks at its end; in colours if the cells are. */
void mt_cells_write_row(const struct mt_cells *cells, int row, FILE *to);

#endif
