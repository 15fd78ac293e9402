/* ctl/ui/top/history.h -- what a process held over the last 15 minutes: what its own ring of
 * samples had when top first saw it, and what top has seen since. Pure: times come from outside. */
#ifndef MT_CTL_UI_TOP_HISTORY_H
#define MT_CTL_UI_TOP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/stats_layout.h"

#define MT_TOP_HISTORY_POINTS 512u
#define MT_TOP_HISTORY_NS     (900u * UINT64_C(1000000000))

struct mt_top_point {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t rss_bytes, live_bytes, idle_bytes;
};

struct mt_top_history {
	struct mt_top_point points[MT_TOP_HISTORY_POINTS]; /* a ring */
	size_t first, count;
};

/* A point that is not later than the last one is dropped; one that is much earlier begins all
 * again, since the clock has been set back. Points that are nearer to each other than 15 minutes
 * divided by the room for them become one, with the larger RSS; the ring always reaches back 15
 * minutes, at whatever interval. */
void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point);

/* All samples of the ring in a stats file that lie before `now_ns`: times that make no sense are
 * left out. */
void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns);

/* The time that a picture of it spans: from the oldest point, 15 minutes at most, a minute at
 * least. */
uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns);

/* `count` points over the span, each with the largest RSS of its part of the time; a part without
 * any repeats the one before it, and has time_ns 0 where nothing was known yet. */
void mt_top_history_spread(const struct mt_top_history *history, uint64_t now_ns,
			   struct mt_top_point *out, size_t count);

#endif
