/* ctl/ui/top/details.h -- the screen of one process, in tabs: figures, cleanups, settings, devices.
 * Pure but for mt_top_details_read. */
#ifndef MT_CTL_UI_TOP_DETAILS_H
#define MT_CTL_UI_TOP_DETAILS_H

#include "ctl/ui/top/page.h"
#include "ctl/ui/top/row.h"

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

/* Reads the stats file of details->row again. Where that fails, what was read before stays. */
void mt_top_details_read(struct mt_top_details *details);

/* Draws title, tabs and the selected tab in all rows of the canvas above `end`. */
void mt_top_details_draw(struct mt_top_details *details, struct mt_cells *canvas, int end,
			 uint64_t now_ns);

#endif
