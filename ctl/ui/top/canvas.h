/* ctl/ui/top/canvas.h -- one frame of the view: a grid of characters, each with a style. Everything
 * is drawn here first, so that what a terminal shows, what --once prints and what a test reads are
 * the same. Knows no terminal. Text that is put here loses whatever is not printable ASCII (the
 * second time, for text of processes: it comes cleaned); glyphs of the view's own go in as wide
 * characters. */
#ifndef MT_CTL_UI_TOP_CANVAS_H
#define MT_CTL_UI_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

enum mt_top_style {
	MT_STYLE_PLAIN,
	MT_STYLE_DIM, /* asleep, or there only for the tree */
	MT_STYLE_BOLD,
	MT_STYLE_TITLE,
	MT_STYLE_HEADING,
	MT_STYLE_SORTED, /* the heading by which rows are sorted; the tab that is shown */
	MT_STYLE_SELECTED,
	MT_STYLE_LABEL,
	MT_STYLE_KEY,
	MT_STYLE_GOOD,
	MT_STYLE_WARN,
	MT_STYLE_BAD,
	MT_STYLE_TREND,
	MT_STYLE_LIVE, /* parts of a bar */
	MT_STYLE_IDLE,
	MT_STYLE_REST,
	MT_STYLE_OTHERS,
	MT_STYLES_COUNT
};

struct mt_top_cell {
	wchar_t glyph;
	enum mt_top_style style;
};

struct mt_top_canvas {
	int columns, rows;
	bool unicode;  /* the reader's locale can show block and line characters */
	bool coloured; /* styles are seen; else characters must tell the parts of a bar apart */
	struct mt_top_cell *cells;
};

/* Where text goes: what would lie at `end` or behind it is cut; 0: the canvas's edge. */
struct mt_top_at {
	int row, column, end;
};

/* Blank, of this size, at least 1 x 1. */
void mt_top_canvas_start(struct mt_top_canvas *canvas, int columns, int rows);
void mt_top_canvas_free(struct mt_top_canvas *canvas);

/* Answers the column behind what was put. Outside of the canvas nothing is put. */
int mt_top_put(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
	       const char *text);
int mt_top_put_glyph(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
		     wchar_t glyph);

/* The same, ending before at.end; text that is too long loses its end, never its beginning. */
void mt_top_put_right(struct mt_top_canvas *canvas, struct mt_top_at at, enum mt_top_style style,
		      const char *text);

/* Every cell of the row gets the style. */
void mt_top_paint_row(struct mt_top_canvas *canvas, int row, enum mt_top_style style);

const struct mt_top_cell *mt_top_cell(const struct mt_top_canvas *canvas, int row, int column);

/* One line as text of the locale, without the blanks at its end; cut to fit. */
void mt_top_canvas_line(const struct mt_top_canvas *canvas, int row, char *out, size_t out_bytes);

#endif
