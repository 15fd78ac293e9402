/* ctl/ui/top/sparkline.h -- charts out of characters: a sparkline, a bar of parts, a chart in
 * layers. ASCII is used where the locale has no block characters. Bars start at 0: half the height
 * is half the value. Pure, but for memory. */
#ifndef MT_CTL_UI_TOP_SPARKLINE_H
#define MT_CTL_UI_TOP_SPARKLINE_H

#include "ctl/ui/top/canvas.h"
#include "ctl/ui/top/history.h"

/* Draws RSS over time, one character high, from at.column to at.end. */
void mt_top_draw_trend(struct mt_top_canvas *canvas, struct mt_top_at at,
		       const struct mt_top_history *history, uint64_t now_ns);

/* Draws the parts of resident memory from at.column to at.end, of which all are `full_bytes`. */
void mt_top_draw_parts(struct mt_top_canvas *canvas, struct mt_top_at at,
		       const struct mt_memory_parts *parts, uint64_t full_bytes);

/* Returns the glyph of one part, for a legend. */
wchar_t mt_top_part_glyph(const struct mt_top_canvas *canvas, enum mt_memory_part part);

struct mt_top_part {
	uint64_t bytes;
	enum mt_top_style style;
};

/* Draws "[||||||      1.2G/3.4G]" from at.column to at.end: the parts side by side, `total_bytes`
 *   is the whole width. `parts` ends with a part of MT_STYLE_PLAIN. */
struct mt_top_bar {
	const struct mt_top_part *parts;
	uint64_t total_bytes;
	const char *text;
};
void mt_top_draw_bar(struct mt_top_canvas *canvas, struct mt_top_at at,
		     const struct mt_top_bar *bar);

/* Draws RSS over time in `rows` lines below `at`, in its four parts. Returns
 * the value of the full height in bytes. */
uint64_t mt_top_draw_chart(struct mt_top_canvas *canvas, struct mt_top_at at, int rows,
			   const struct mt_top_point *points);

#endif
