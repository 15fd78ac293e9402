/* ctl/metrics/series.h -- one figure over time: points with x in seconds and y in bytes, by rising
 * x. A y of NaN is a gap: nothing was known then. Pure, but for memory. */
#ifndef MT_CTL_METRICS_SERIES_H
#define MT_CTL_METRICS_SERIES_H

#include "ctl/figures/memory_parts.h"
#include "ctl/metrics/recording.h"
#include "ctl/output/cells.h"

/* A point of a series (seconds, bytes) or of a picture (pixels). */
struct mt_point {
	double x, y;
};

struct mt_scale {
	double low, high; /* values; high > low */
	double from, to;  /* their positions */
};

double mt_scale_position(const struct mt_scale *scale, double value);

#define MT_TICKS_MAX 32u

struct mt_tick {
	double at;
	char label[24];
};

struct mt_ticks {
	struct mt_tick list[MT_TICKS_MAX];
	size_t count;
};

/* Bytes from 0 up to at least `high`, in one unit, with about `wanted` steps (2 to 20). The axis
 * ends at the last tick. MB and GB are 2^20 and 2^30 bytes. */
void mt_ticks_bytes(double high, size_t wanted, struct mt_ticks *out);

/* Seconds since the start: "30 s", "10 min", "1.5 h", "2 d". */
void mt_ticks_elapsed(double low, double high, size_t wanted, struct mt_ticks *out);

/* Local times of day; `origin` is second 0 on CLOCK_REALTIME. At midnight the date is shown. */
void mt_ticks_clock(double origin, double low, double high, struct mt_ticks *out);

struct mt_series {
	struct mt_point *list;
	size_t count;
};

/* Makes the series of one process, or (pid 0) of the sum of all: samples of the same time are
 * added. x counts from `origin_ns`. Of a single process, RSS and the heap's figures also have a
 * point at the start and the end of each cleanup, whose record has the values: between samples a
 * second apart a whole peak may lie. Sums have no such points, since the values of the other
 * processes at that time are unknown. The caller frees. */
struct mt_series mt_series_of(const struct mt_recording *recording, enum mt_recording_figure figure,
			      uint64_t pid, uint64_t origin_ns);

/* The same for a part of RSS. All four are known or none, since each is drawn on the one before. */
struct mt_series mt_series_of_part(const struct mt_recording *recording, enum mt_memory_part part,
				   uint64_t pid, uint64_t origin_ns);

/* Makes the series of one device, as used by one process or (pid 0) all of them. */
struct mt_series_device {
	uint64_t ordinal, pid;
	bool reserved; /* else allocated */
};
struct mt_series mt_series_of_device(const struct mt_recording *recording,
				     const struct mt_series_device *which, uint64_t origin_ns);

void mt_series_free(struct mt_series *series);

/* Compares two doubles, for qsort(3). */
int mt_series_compare(const void *a, const void *b);

/* Returns a copy. The caller frees. */
struct mt_series mt_series_copy(const struct mt_series *series);

/* Keeps the points from `low` to `high`. */
void mt_series_cut(struct mt_series *series, double low, double high);

/* Removes gaps narrower than `least` seconds, which would not be visible. */
void mt_series_close_gaps(struct mt_series *series, double least);

/* Adds another figure of the same samples, point by point. A gap in one is a gap in the sum. */
void mt_series_add(struct mt_series *series, const struct mt_series *other);

/* The peak, the mean over time, and the last value; 0 if nothing is known. */
struct mt_series_sums {
	double peak, mean, end;
};
struct mt_series_sums mt_series_sum_up(const struct mt_series *series);

/* Writes the points that a line across `columns` pixels between x `low` and `high` needs to look
 * the same: of each column the first, the smallest, the largest and the last one, so that no peak
 * is lost. The series must have no gaps. `out` has room for 4 * (columns + 1). Returns how many. */
size_t mt_series_thin(const struct mt_series *series, double low, double high, size_t columns,
		      struct mt_point *out);

/* Memory over time out of characters, for `mtctl top` and `mtctl plot`:
 * stacked areas, one for each part, with a scale in bytes, cleanups as letters on the time axis,
 * and times below it. Without colours or block characters the areas are filled with the characters
 * of the parts. Pure, but for memory and the time zone. */

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
