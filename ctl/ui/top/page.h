/* ctl/ui/top/page.h -- text that may be longer than the screen: the details of a process, the help.
 * Pure, but for memory. */
#ifndef MT_CTL_UI_TOP_PAGE_H
#define MT_CTL_UI_TOP_PAGE_H

#include "ctl/output/cells.h"

struct mt_table;

struct mt_top_page_line {
	char text[320];
	enum mt_cell_style style;
};

struct mt_top_page {
	struct mt_top_page_line *lines;
	size_t count, room;
};

void mt_top_page_add(struct mt_top_page *page, enum mt_cell_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds the lines of a table (ctl/output/table.h), and frees it. */
void mt_top_page_add_table(struct mt_top_page *page, struct mt_table *table);
void mt_top_page_free(struct mt_top_page *page);

/* Draws lines from *first on in the rows from from.row to before from.end. *first is lowered where
 * there are fewer lines. Lines are cut at the right edge. */
void mt_top_page_draw(const struct mt_top_page *page, struct mt_cells *canvas,
		      struct mt_cell_place from, size_t *first);

/* The meaning of keys, columns and colours, for the help screen and for `mtctl top --help`. */

/* Appends the help to the page, in lines of up to `columns` characters. */
void mt_top_help_fill(struct mt_top_page *page, int columns);

#endif
