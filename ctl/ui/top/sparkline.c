#include "ctl/ui/top/sparkline.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "sys/saturating.h"

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
	return (wchar_t)mt_memory_part_glyph((enum mt_memory_part)(style - MT_STYLE_LIVE));
}

void mt_top_draw_parts(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_memory_parts *parts, uint64_t full_bytes)
{
	int ends[MT_PARTS_COUNT], from = at.column;

	mt_memory_parts_divide(parts, full_bytes, at.end - from, ends);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		for (; at.column < from + ends[i]; at.column++)
			mt_cells_put_glyph(canvas, at, (enum mt_cell_style)(MT_STYLE_LIVE + i),
					   mt_area_part_glyph(canvas, (enum mt_memory_part)i));
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
