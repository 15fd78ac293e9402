/* ctl/ui/top/area_chart.h -- resident memory over time as stacked areas, one for each of its four
 * parts, with a scale in bytes, cleanups as letters on the time axis, and times of day below it. A
 * column is the largest RSS of its time. Without colours or block characters the areas are filled
 * with the characters of the parts. Pure, but for memory and the time zone. */
#ifndef MT_CTL_UI_TOP_AREA_CHART_H
#define MT_CTL_UI_TOP_AREA_CHART_H

#include "ctl/ui/top/canvas.h"
#include "ctl/ui/top/history.h"
#include "ctl/ui/top/marks.h"

/* rows for the time axis and its labels, and the fewest rows with areas above them */
#define MT_TOP_CHART_ROWS_MIN 4

struct mt_top_area_chart {
	const struct mt_top_history *history;
	const struct mt_top_marks *marks; /* NULL: not known */
	uint64_t now_ns;                  /* CLOCK_REALTIME: the right edge */
};

/* Draws in `rows` rows from at.row on, from at.column to at.end. Draws nothing in fewer than
 * MT_TOP_CHART_ROWS_MIN rows, or where the scale leaves no room. */
void mt_top_area_chart_draw(struct mt_top_canvas *canvas, struct mt_top_at at, int rows,
			    const struct mt_top_area_chart *chart);

#endif
