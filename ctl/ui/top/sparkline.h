/* ctl/ui/top/sparkline.h -- small charts out of characters: a sparkline, a bar of parts. ASCII is
 * used where the locale has no block characters. Pure, but for memory. */
#ifndef MT_CTL_UI_TOP_SPARKLINE_H
#define MT_CTL_UI_TOP_SPARKLINE_H

#include "ctl/metrics/area_chart.h"
#include "ctl/output/cells.h"
#include "ctl/ui/top/history.h"

/* Draws RSS over time, one character high, from at.column to at.end: between its least and its
 * most, at least 2 % of the most apart. Blank where nothing was known yet. */
void mt_top_draw_trend(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_top_history *history, uint64_t now_ns);

/* Draws the parts of resident memory from at.column to at.end, of which all are `full_bytes`. */
void mt_top_draw_parts(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_memory_parts *parts, uint64_t full_bytes);

struct mt_top_part {
	uint64_t bytes;
	enum mt_cell_style style;
};

/* Draws "[||||||      1.2G/3.4G]" from at.column to at.end: the parts side by side, `total_bytes`
 *   is the whole width. `parts` ends with a part of MT_STYLE_PLAIN. */
struct mt_top_bar {
	const struct mt_top_part *parts;
	uint64_t total_bytes;
	const char *text;
};
void mt_top_draw_bar(struct mt_cells *canvas, struct mt_cell_place at,
		     const struct mt_top_bar *bar);

#endif
