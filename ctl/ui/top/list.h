/* ctl/ui/top/list.h -- draws the list of processes: its heading and its lines. Pure. */
#ifndef MT_CTL_UI_TOP_LIST_H
#define MT_CTL_UI_TOP_LIST_H

#include "ctl/ui/top/machine.h"
#include "ctl/ui/top/model.h"

/* The lines above the list: a title, meters (machine, limit, swap, GPUs) and the sums of all
 * processes. Pure. */

/* All data of a frame. */
struct mt_top_frame {
	const struct mt_top_model *model;
	const struct mt_top_machine *machine;
	const struct mt_top_gpus *gpus;
	uint64_t now_ns; /* CLOCK_REALTIME of the last update */
	uint64_t interval_ms;
	bool is_paused;
};

/* Draws 1 to `most` lines, and returns how many. */
int mt_top_draw_header(struct mt_cells *canvas, const struct mt_top_frame *frame, int most);

/* Rows of the canvas: the heading at `row`, processes below it and above `end`. */
struct mt_top_area {
	int row, end;
};

/* Draws the list from line *first on. *first is moved so that the selected line is visible. */
void mt_top_draw_list(struct mt_cells *canvas, const struct mt_top_frame *frame,
		      struct mt_top_area area, size_t *first);

/* The smallest size of a frame. */
#define MT_TOP_COLUMNS_MIN 40
#define MT_TOP_ROWS_MIN    8

/* Draws header, heading and all lines without a selection, `columns` wide and as long as needed. */
void mt_top_draw_once(struct mt_cells *canvas, const struct mt_top_frame *frame, int columns);

#endif
