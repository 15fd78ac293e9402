/* ctl/ui/top/pane.h -- the second pane: one process over time, with its figures. On a wide canvas
 * the figures stand beside the chart, otherwise in a line above it. Pure, but for memory and the
 * time zone. */
#ifndef MT_CTL_UI_TOP_PANE_H
#define MT_CTL_UI_TOP_PANE_H

#include "ctl/output/cells.h"
#include "ctl/ui/top/page.h"
#include "ctl/ui/top/row.h"

/* Returns the rows of the pane on a canvas of so many rows: two fifths of them, and further ones
 * that the list does not need (`spare_rows`), up to three fifths. 0 if there is no room for a
 * pane. */
int mt_top_pane_rows(int canvas_rows, int spare_rows);

/* Draws the process: a title, and below it the body. */
void mt_top_pane_draw(struct mt_cells *canvas, struct mt_top_area area,
		      const struct mt_top_row *process, uint64_t now_ns);

/* ---- details ---- */

/* The screen of one process, in tabs: figures, cleanups, settings, devices.
 * Pure but for mt_top_details_read. */

#define MT_TOP_TABS(X)                                                                             \
	X(FIGURES, "Figures")                                                                      \
	X(RECORDS, "Rounds, cleanups")                                                             \
	X(SETTINGS, "Settings")                                                                    \
	X(DEVICES, "Devices")

enum mt_top_tab {
#define X(id, title) MT_TAB_##id,
	MT_TOP_TABS(X) MT_TABS_COUNT
#undef X
};

struct mt_top_details {
	struct mt_top_row row; /* of the last update */
	bool has_ended;
	struct mt_stats_file *file; /* as it was last read */
	bool is_known;              /* *file has been read */
	struct mt_error_reason why; /* else: why not */
	enum mt_top_tab tab;
	size_t first; /* first visible line */
};

/* Reads the stats file of details->row again. If that fails, what was read before stays. */
void mt_top_details_read(struct mt_top_details *details);

/* Draws title, tabs and the selected tab in all rows of the canvas above `end`. */
void mt_top_details_draw(struct mt_top_details *details, struct mt_cells *canvas, int end,
			 uint64_t now_ns);

#endif
