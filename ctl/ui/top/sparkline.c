/* ctl/ui/top/sparkline.c -- see sparkline.h. */
#include "ctl/ui/top/sparkline.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"

#define LEVELS 8

static wchar_t level_glyph(bool unicode, int level)
{
	static const wchar_t blocks[] = L" \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588",
			     ascii[] = L" _..--==#";

	return (unicode ? blocks : ascii)[level < 0 ? 0 : level > LEVELS ? LEVELS : level];
}

/* The height in eighths of a character; at least 1 for a value above 0. */
static int eighths(uint64_t bytes, uint64_t full_bytes, int height)
{
	int most = height * LEVELS, level;

	if (!bytes || !full_bytes)
		return 0;
	level = (int)((double)bytes / (double)full_bytes * most + 0.5);
	return level < 1 ? 1 : level > most ? most : level;
}

static uint64_t largest(const struct mt_top_point *points, size_t count)
{
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		if (points[i].rss_bytes > most)
			most = points[i].rss_bytes;
	return most;
}

void mt_top_draw_trend(struct mt_top_canvas *canvas, struct mt_top_at at,
		       const struct mt_top_history *history, uint64_t now_ns)
{
	size_t count = at.end > at.column ? (size_t)(at.end - at.column) : 0;
	struct mt_top_point *points;
	uint64_t full;

	if (!count)
		return;
	points = mt_error_check_memory(calloc(count, sizeof(*points)));
	mt_top_history_resample(history, now_ns, points, count);
	full = largest(points, count);
	for (size_t i = 0; i < count; i++, at.column++)
		mt_top_put_glyph(
			canvas, at, MT_STYLE_TREND,
			level_glyph(canvas->unicode, eighths(points[i].rss_bytes, full, 1)));
	free(points);
}

/* Characters of the parts without colours. */
static wchar_t part_glyph(const struct mt_top_canvas *canvas, enum mt_top_style style)
{
	if (canvas->coloured || style < MT_STYLE_LIVE || style > MT_STYLE_OTHER)
		return L'|';
	return (wchar_t)mt_memory_part_glyph((enum mt_memory_part)(style - MT_STYLE_LIVE));
}

/* Blocks that leave a gap to the line above. */
wchar_t mt_top_part_glyph(const struct mt_top_canvas *canvas, enum mt_memory_part part)
{
	return canvas->coloured && canvas->unicode ? L'\u2586'
						   : (wchar_t)mt_memory_part_glyph(part);
}

void mt_top_draw_parts(struct mt_top_canvas *canvas, struct mt_top_at at,
		       const struct mt_memory_parts *parts, uint64_t full_bytes)
{
	int ends[MT_PARTS_COUNT], from = at.column;

	mt_memory_parts_divide(parts, full_bytes, at.end - from, ends);
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		for (; at.column < from + ends[i]; at.column++)
			mt_top_put_glyph(canvas, at, (enum mt_top_style)(MT_STYLE_LIVE + i),
					 mt_top_part_glyph(canvas, (enum mt_memory_part)i));
}

void mt_top_draw_bar(struct mt_top_canvas *canvas, struct mt_top_at at,
		     const struct mt_top_bar *bar)
{
	int left = at.column + 1, width = at.end - at.column - 2, column = left;
	uint64_t sum = 0;
	struct mt_top_at inside = {at.row, left, at.end - 1};

	if (width < 1)
		return;
	mt_top_put(canvas, at, MT_STYLE_BOLD, "[");
	for (const struct mt_top_part *part = bar->parts;
	     part->style != MT_STYLE_PLAIN && bar->total_bytes; part++) {
		int end;

		sum = part->bytes > UINT64_MAX - sum ? UINT64_MAX : sum + part->bytes;
		end = left + (int)((double)(sum < bar->total_bytes ? sum : bar->total_bytes) /
					   (double)bar->total_bytes * width +
				   0.5);
		for (; column < end; column++)
			mt_top_put_glyph(canvas, (struct mt_top_at){at.row, column, at.end - 1},
					 part->style, part_glyph(canvas, part->style));
	}
	mt_top_put_right(canvas, inside, MT_STYLE_BOLD, bar->text);
	mt_top_put(canvas, (struct mt_top_at){at.row, at.end - 1, at.end}, MT_STYLE_BOLD, "]");
}

/* The layer of a cell, by its middle. */
static enum mt_top_style layer(const struct mt_top_point *point, uint64_t full, int row, int rows)
{
	double middle = ((double)row + 0.5) / rows * (double)full;

	for (int i = 0; i < MT_PART_OTHER; i++) {
		middle -= (double)point->parts.bytes[i];
		if (middle <= 0)
			return (enum mt_top_style)(MT_STYLE_LIVE + i);
	}
	return MT_STYLE_OTHER;
}

/* The characters of bars where there are no block characters. */
static wchar_t chart_glyph(const struct mt_top_canvas *canvas, int level, enum mt_top_style style)
{
	if (canvas->unicode)
		return level_glyph(true, level);
	return level >= LEVELS / 2 ? part_glyph(canvas, style) : level > 0 ? L'_' : L' ';
}

uint64_t mt_top_draw_chart(struct mt_top_canvas *canvas, struct mt_top_at at, int rows,
			   const struct mt_top_point *points)
{
	size_t count = at.end > at.column ? (size_t)(at.end - at.column) : 0;
	uint64_t full = largest(points, count);

	for (size_t i = 0; i < count; i++) {
		int height = eighths(points[i].rss_bytes, full, rows);

		for (int row = 0; row < rows && height > row * LEVELS; row++) {
			const struct mt_top_at cell = {at.row + rows - 1 - row, at.column + (int)i,
						       at.end};
			enum mt_top_style style = layer(&points[i], full, row, rows);

			mt_top_put_glyph(canvas, cell, style,
					 chart_glyph(canvas, height - row * LEVELS, style));
		}
	}
	return full;
}
