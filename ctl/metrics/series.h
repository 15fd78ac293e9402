/* ctl/metrics/series.h -- one figure over time: points with x in seconds and y in bytes, by rising
 * x. A y of NaN is a gap: nothing was known then. Pure, but for memory. */
#ifndef MT_CTL_METRICS_SERIES_H
#define MT_CTL_METRICS_SERIES_H

#include "ctl/figures/memory_parts.h"
#include "ctl/metrics/recording.h"
#include "ctl/metrics/scale.h"

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

#endif
