/* ctl/ui/plot/marks.h -- events in a picture: rounds and cleanups in lanes below the panels,
 * pressure as areas behind them, the bytes freed by the largest cleanups above them. */
#ifndef MT_CTL_UI_PLOT_MARKS_H
#define MT_CTL_UI_PLOT_MARKS_H

#include "ctl/ui/plot/palette.h"
#include "ctl/ui/plot/panel.h"

#define MT_MARKS_LEGEND 6u /* items at most */

struct mt_marks {
	const struct mt_recording *recording;
	uint64_t pid; /* 0: of all processes */
	uint64_t origin_ns;
	const struct mt_span *span;
};

/* Draws behind the curves of one panel: areas of pressure, and a line at each larger cleanup. */
void mt_marks_draw_behind(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box);

/* Returns the height of the lanes in pixels: one for rounds and one for cleanups, where there are
 * any. */
double mt_marks_height(const struct mt_marks *marks);

/* Draws the lanes from `y` down; `box` gives left and right. */
void mt_marks_draw_lanes(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double y);

/* Draws the bytes freed by the largest cleanups in one row above the panel. Text may extend
 * `beside` pixels to the left and right of the box. mt_marks_has_freed: whether there are any. */
bool mt_marks_has_freed(const struct mt_marks *marks);
void mt_marks_draw_freed(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double beside);

/* Writes the items of all kinds of events that exist, and returns how many. */
size_t mt_marks_legend(const struct mt_marks *marks, struct mt_legend_item *out);

#endif
