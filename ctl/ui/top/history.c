#include "ctl/ui/top/history.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "sys/saturating.h"

#define SPAN_MIN_NS   (60u * UINT64_C(1000000000))
#define CLOCK_STEP_NS (10u * UINT64_C(1000000000))

static struct mt_top_point *at(struct mt_top_history *history, size_t index)
{
	return &history->points[(history->first + index) % MT_TOP_HISTORY_POINTS];
}

static const struct mt_top_point *point_at(const struct mt_top_history *history, size_t index)
{
	return &history->points[(history->first + index) % MT_TOP_HISTORY_POINTS];
}

/* Three points in the time of two: the middle one goes. The newest one stays as it is. */
static bool is_crowded(const struct mt_top_history *history, uint64_t time_ns)
{
	return history->count >= 2 && time_ns - point_at(history, history->count - 2)->time_ns <
					      2 * (MT_TOP_HISTORY_NS / MT_TOP_HISTORY_POINTS);
}

/* Keeps the larger one of the last two at the time of the earlier one, so that a peak between two
 * updates is not lost. */
static void merge_last(struct mt_top_history *history)
{
	struct mt_top_point *before = at(history, history->count - 2);
	const struct mt_top_point last = *at(history, history->count - 1);
	uint64_t time_ns = before->time_ns;

	if (last.rss_bytes > before->rss_bytes)
		*before = last;
	before->time_ns = time_ns;
	history->count--;
}

/* Whether the clock was set back. Two readings may cross by less. */
static bool went_back(uint64_t last_ns, uint64_t time_ns)
{
	return time_ns < last_ns && last_ns - time_ns > CLOCK_STEP_NS;
}

void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point)
{
	if (history->count && went_back(at(history, history->count - 1)->time_ns, point->time_ns))
		history->count = 0;
	if (history->count && point->time_ns <= at(history, history->count - 1)->time_ns)
		return;
	if (history->count && is_crowded(history, point->time_ns))
		merge_last(history);
	if (history->count == MT_TOP_HISTORY_POINTS)
		history->first = (history->first + 1) % MT_TOP_HISTORY_POINTS;
	else
		history->count++;
	*at(history, history->count - 1) = *point;
}

void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns)
{
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];
		const struct mt_top_point point = {sample->time_ns, sample->rss_bytes,
						   mt_memory_parts_of_sample(sample)};

		/* Of two times out of order nobody knows which is wrong. */
		if (history->count && sample->time_ns <= at(history, history->count - 1)->time_ns)
			continue;
		if (sample->time_ns && sample->time_ns < now_ns &&
		    now_ns - sample->time_ns < MT_TOP_HISTORY_NS)
			mt_top_history_add(history, &point);
	}
}

uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns)
{
	uint64_t first_ns = history->count ? point_at(history, 0)->time_ns : now_ns;
	uint64_t span_ns = now_ns > first_ns ? now_ns - first_ns : 0;

	if (span_ns > MT_TOP_HISTORY_NS)
		return MT_TOP_HISTORY_NS;
	return span_ns < SPAN_MIN_NS ? SPAN_MIN_NS : span_ns;
}

void mt_top_history_resample(const struct mt_top_history *history, uint64_t now_ns,
			     struct mt_top_point *out, size_t count)
{
	uint64_t span_ns = mt_top_history_span(history, now_ns),
		 start_ns = now_ns > span_ns ? now_ns - span_ns : 0;
	struct mt_top_point before = {0};
	size_t next = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns =
			start_ns + (uint64_t)((double)span_ns * (double)(i + 1) / (double)count);
		bool is_first = true;

		out[i] = before;
		for (; next < history->count &&
		       (point_at(history, next)->time_ns <= end_ns || i + 1 == count);
		     next++) {
			const struct mt_top_point *point = point_at(history, next);

			before = *point;
			if (is_first || point->rss_bytes > out[i].rss_bytes)
				out[i] = *point;
			/* too old: only the value at the start of the first part */
			is_first = point->time_ns < start_ns;
		}
	}
}

/* ---- small charts out of characters ---- */

#define LEVELS     8
#define TREND_PART 50 /* of the most: 2 % */

/* The least and the most RSS of the points that are known. */
struct range {
	uint64_t least, most;
};

static struct range range_of(const struct mt_top_point *points, size_t count)
{
	struct range range = {UINT64_MAX, 0};

	for (size_t i = 0; i < count; i++) {
		if (!points[i].time_ns)
			continue;
		range.least = mt_min_u64(range.least, points[i].rss_bytes);
		range.most = mt_max_u64(range.most, points[i].rss_bytes);
	}
	return range;
}

/* A level of 1 for the least, LEVELS for the most. What moves by less than TREND_PART of the most
 * looks flat: then the range is in the middle of one that is so large. */
static int trend_level(const struct range *range, uint64_t bytes)
{
	double span = (double)(range->most - range->least),
	       least_span = (double)range->most / TREND_PART, low = (double)range->least;

	if (span < least_span) {
		low -= (least_span - span) / 2;
		span = least_span;
	}
	return span > 0 ? 1 + (int)(((double)bytes - low) / span * (LEVELS - 1) + 0.5) : 1;
}

void mt_top_draw_trend(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_top_history *history, uint64_t now_ns)
{
	size_t count = at.end > at.column ? (size_t)(at.end - at.column) : 0;
	struct mt_top_point *points;
	struct range range;

	if (!count)
		return;
	points = mt_error_check_memory(calloc(count, sizeof(*points)));
	mt_top_history_resample(history, now_ns, points, count);
	range = range_of(points, count);
	for (size_t i = 0; i < count; i++, at.column++)
		if (points[i].time_ns)
			mt_cells_put_glyph(
				canvas, at, MT_STYLE_TREND,
				mt_cells_level_glyph(canvas->unicode,
						     trend_level(&range, points[i].rss_bytes)));
	free(points);
}

/* Characters of the parts without colours. */
static wchar_t part_glyph(const struct mt_cells *canvas, enum mt_cell_style style)
{
	if (canvas->coloured || style < MT_STYLE_LIVE || style > MT_STYLE_OTHER)
		return L'|';
	return mt_memory_part_cell(canvas, (enum mt_memory_part)(style - MT_STYLE_LIVE));
}

void mt_top_draw_bar(struct mt_cells *canvas, struct mt_cell_place at, const struct mt_top_bar *bar)
{
	int left = at.column + 1, width = at.end - at.column - 2, column = left;
	uint64_t sum = 0;
	struct mt_cell_place inside = {at.row, left, at.end - 1};

	if (width < 1)
		return;
	mt_cells_put(canvas, at, MT_STYLE_BOLD, "[");
	for (const struct mt_top_part *part = bar->parts;
	     part->style != MT_STYLE_PLAIN && bar->total_bytes; part++) {
		int end;

		sum = part->bytes > UINT64_MAX - sum ? UINT64_MAX : sum + part->bytes;
		end = left + (int)((double)(sum < bar->total_bytes ? sum : bar->total_bytes) /
					   (double)bar->total_bytes * width +
				   0.5);
		for (; column < end; column++)
			mt_cells_put_glyph(canvas,
					   (struct mt_cell_place){at.row, column, at.end - 1},
					   part->style, part_glyph(canvas, part->style));
	}
	mt_cells_put_right(canvas, inside, MT_STYLE_BOLD, bar->text);
	mt_cells_put(canvas, (struct mt_cell_place){at.row, at.end - 1, at.end}, MT_STYLE_BOLD,
		     "]");
}
