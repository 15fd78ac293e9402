/* ctl/ui/plot/marks.h -- what happened, in a picture: rounds and cleanups in lanes below the
 * fields, pressure as a shade behind them, what the largest cleanups brought above them. */
#ifndef MT_CTL_UI_PLOT_MARKS_H
#define MT_CTL_UI_PLOT_MARKS_H

#include "ctl/ui/plot/legend.h"
#include "ctl/ui/plot/panel.h"

#define MT_MARKS_LEGEND 6u /* items at most */

struct mt_marks {
	const struct mt_recording *recording;
	uint64_t pid; /* 0: of all */
	uint64_t origin_ns;
	const struct mt_span *span;
};

/* Shades of pressure, and a line down to each larger cleanup: behind the curves of one field. */
void mt_marks_draw_behind(struct mt_canvas *canvas, const struct mt_marks *marks,
			  const struct mt_box *box);

/* How many pixels the lanes need: one for rounds and one for cleanups, where there are any. */
double mt_marks_height(const struct mt_marks *marks);

/* The lanes, from `y` down; `box` gives left and right. */
void mt_marks_draw_lanes(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double y);

/* What the largest brought, each above its line, on a row of its own; it may stand out by `beside`
 * pixels to the left and to the right of the box. */
bool mt_marks_has_freed(const struct mt_marks *marks);
void mt_marks_draw_freed(struct mt_canvas *canvas, const struct mt_marks *marks,
			 const struct mt_box *box, double beside);

/* The items of those kinds that there are. */
size_t mt_marks_legend(const struct mt_marks *marks, struct mt_legend_item *out);

#endif
