/* ctl/metrics/area_chart.h -- memory over time out of characters, for `mtctl top` and `mtctl plot`:
 * stacked areas, one for each part, with a scale in bytes, cleanups as letters on the time axis,
 * and times below it. Without colours or block characters the areas are filled with the characters
 * of the parts. Pure, but for memory and the time zone. */
#ifndef MT_CTL_METRICS_AREA_CHART_H
#define MT_CTL_METRICS_AREA_CHART_H

#include "ctl/figures/memory_parts.h"
#include "ctl/output/cells.h"

/* From the lightest to the heaviest: if marks meet, the last one of these is drawn. */
#define MT_AREA_MARK_LETTERS "prlh"
/* rows for the time axis and its labels, and the fewest rows with areas above them */
#define MT_AREA_ROWS_MIN 4

/* A cleanup or a round. */
struct mt_area_mark {
	uint64_t time_ns; /* CLOCK_REALTIME at its start */
	char letter;      /* p purge, r at the end of a round, l light, h heavy */
	bool has_freed, is_for_pressure;
};

struct mt_area_chart {
	uint64_t start_ns, end_ns; /* CLOCK_REALTIME: the left and the right edge */
	/* second 0 of the axis, which then has spans; 0: it has times of day */
	uint64_t origin_ns;
	const struct mt_area_mark *marks; /* by rising time */
	size_t marks_count;
	uint64_t kept_since_ns; /* older cleanups are not known, and the axis is dotted there */
	/* Writes what lies in `count` columns, 0 if nothing is known. */
	void (*read)(const void *data, struct mt_memory_parts *out, size_t count);
	const void *data;
};

/* Draws in `rows` rows from at.row on, from at.column to at.end. Draws nothing in fewer than
 * MT_AREA_ROWS_MIN rows, or if the scale leaves no room. */
void mt_area_chart_draw(struct mt_cells *cells, struct mt_cell_place at, int rows,
			const struct mt_area_chart *chart);

/* Returns the letter of a cleanup of this level. */
char mt_area_mark_letter(uint32_t level);

#endif
