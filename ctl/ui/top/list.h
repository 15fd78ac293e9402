/* ctl/ui/top/list.h -- the list of processes on a canvas: its heading and its lines. Pure. */
#ifndef MT_CTL_UI_TOP_LIST_H
#define MT_CTL_UI_TOP_LIST_H

#include "ctl/ui/top/header.h"

/* Lines of the canvas: the heading at `row`, processes below it and above `end`. */
struct mt_top_area {
	int row, end;
};

/* `first` is the line at the top; it is moved so that the selected one is in sight. */
void mt_top_draw_list(struct mt_top_canvas *canvas, const struct mt_top_sample *sample,
		      struct mt_top_area area, size_t *first);

/* How many columns and rows a whole frame needs at least. */
#define MT_TOP_COLUMNS_LEAST 40
#define MT_TOP_ROWS_LEAST    8

/* The header, the heading, and all lines, with none selected: as wide as asked, as long as it has
 * to be. */
void mt_top_draw_once(struct mt_top_canvas *canvas, const struct mt_top_sample *sample,
		      int columns);

#endif
