/* ctl/ui/top/pane.h -- the second pane: one process over time, with its figures. On a wide canvas
 * the figures stand beside the chart, otherwise in a line above it. Pure, but for memory and the
 * time zone. */
#ifndef MT_CTL_UI_TOP_PANE_H
#define MT_CTL_UI_TOP_PANE_H

#include "ctl/output/cells.h"
#include "ctl/ui/top/row.h"

/* Rows of the canvas: from `row` to above `end`. */
struct mt_top_pane_area {
	int row, end;
};

/* Returns the rows of the pane on a canvas of so many rows: two fifths of them, and further ones
 * that the list does not need (`spare_rows`), up to three fifths. 0 where there is no room for a
 * pane. */
int mt_top_pane_rows(int canvas_rows, int spare_rows);

/* Draws the process: a title, and below it the body. */
void mt_top_pane_draw(struct mt_cells *canvas, struct mt_top_pane_area area,
		      const struct mt_top_row *process, uint64_t now_ns);

/* Draws the chart and the figures without a title. */
void mt_top_pane_draw_body(struct mt_cells *canvas, struct mt_top_pane_area area,
			   const struct mt_top_row *process, uint64_t now_ns);

#endif
