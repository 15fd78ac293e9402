/* ctl/ui/top/sparkline.h -- pictures out of characters: a line of bars, a bar of parts, a chart of
 * several lines. Where the locale has no block characters, ASCII stands in. Bars start at 0: half
 * as high is half as much. Pure. */
#ifndef MT_CTL_UI_TOP_SPARKLINE_H
#define MT_CTL_UI_TOP_SPARKLINE_H

#include "ctl/ui/top/canvas.h"
#include "ctl/ui/top/history.h"

/* RSS over time, one character high, from at.column to at.end. */
void mt_top_draw_trend(struct mt_top_canvas *canvas, struct mt_top_at at,
		       const struct mt_top_history *history, uint64_t now_ns);

struct mt_top_part {
	uint64_t bytes;
	enum mt_top_style style;
};

/* "[||||||      1.2G/3.4G]" from at.column to at.end: the parts one after another, `total` is the
 *   whole width; `parts`
 * ends with one whose style is MT_STYLE_PLAIN. */
struct mt_top_bar {
	const struct mt_top_part *parts;
	uint64_t total_bytes;
	const char *text;
};
void mt_top_draw_bar(struct mt_top_canvas *canvas, struct mt_top_at at,
		     const struct mt_top_bar *bar);

/* RSS over time in `rows` lines below `at`, in three layers: live, idle, the rest. Answers what its
 * full height stands for. */
uint64_t mt_top_draw_chart(struct mt_top_canvas *canvas, struct mt_top_at at, int rows,
			   const struct mt_top_point *points);

#endif
