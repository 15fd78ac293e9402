/* ctl/ui/top/history.h -- memory of a process over the last 15 minutes: the samples that its own
 * ring had when top first saw it, and those of top since then. Pure: times are arguments. */
#ifndef MT_CTL_UI_TOP_HISTORY_H
#define MT_CTL_UI_TOP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stats_layout.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/metrics/area_chart.h"
#include "ctl/output/cells.h"

#define MT_TOP_HISTORY_POINTS 512u
#define MT_TOP_HISTORY_NS     (900u * UINT64_C(1000000000))

struct mt_top_point {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t rss_bytes;
	struct mt_memory_parts parts; /* of rss_bytes */
};

struct mt_top_history {
	struct mt_top_point points[MT_TOP_HISTORY_POINTS]; /* a ring */
	size_t first, count;
};

/* Adds a point. A point that is not later than the last one is dropped; one that is more than 10 s
 * earlier restarts the history, since the clock was set back. Points that are closer than 15
 * minutes divided by the size of the ring are merged, with the larger RSS, so that the ring always
 * reaches back 15 minutes. */
void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point);

/* Adds the samples of the ring in a stats file that are at most 15 minutes older than `now_ns`.
 * Samples out of order are left out. */
void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns);

/* Returns the time span of a chart: from the oldest point, 1 to 15 minutes. */
uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns);

/* Writes `count` points over the span, each with the largest RSS of its part of the time. A part
 * without points repeats the one before it. time_ns is 0 if nothing was known yet. */
void mt_top_history_resample(const struct mt_top_history *history, uint64_t now_ns,
			     struct mt_top_point *out, size_t count);

/* ---- small charts out of characters ---- */

/* Small charts out of characters: a sparkline, a bar of parts. ASCII is
 * used if the locale has no block characters. Pure, but for memory. */

/* Draws RSS over time, one character high, from at.column to at.end: between its least and its
 * most, at least 2 % of the most apart. Blank if nothing was known yet. */
void mt_top_draw_trend(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_top_history *history, uint64_t now_ns);

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
