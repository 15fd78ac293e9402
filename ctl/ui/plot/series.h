/* ctl/ui/plot/series.h -- one figure over time: points with x in seconds and y in bytes, by rising
 * x. A y that is not a number is a gap: nothing was known then. Pure, but for memory. */
#ifndef MT_CTL_UI_PLOT_SERIES_H
#define MT_CTL_UI_PLOT_SERIES_H

#include "ctl/metrics/recording.h"

struct mt_point {
	double x, y;
};

struct mt_series {
	struct mt_point *list;
	size_t count;
};

/* Of one process, or (pid 0) of all together: samples of the same time are added up. x counts from
 * `origin_ns`. Of one process, and of a recording that has but one, RSS and the heap's figures have
 * a point at the start and at the end of each cleanup, too, whose record says what was held then:
 * between samples a second apart a whole peak may lie. Of several added up they have none, for
 * nobody knows what the others held at that moment. The caller frees. */
struct mt_series mt_series_of(const struct mt_recording *recording, enum mt_recording_figure figure,
			      uint64_t pid, uint64_t origin_ns);

/* Of one device, as one process holds it or (pid 0) all of them. */
struct mt_series_device {
	uint64_t ordinal, pid;
	bool reserved; /* else allocated */
};
struct mt_series mt_series_of_device(const struct mt_recording *recording,
				     const struct mt_series_device *which, uint64_t origin_ns);

void mt_series_free(struct mt_series *series);

/* Leaves what lies from `low` to `high`. */
void mt_series_cut(struct mt_series *series, double low, double high);

/* Forgets gaps narrower than this, of which nothing would be seen. */
void mt_series_close_gaps(struct mt_series *series, double least);

/* Adds another figure of the same samples, point by point; a gap in one is a gap. */
void mt_series_add(struct mt_series *series, const struct mt_series *other);

/* Where nothing is known, all are 0. The mean is over time. */
struct mt_series_sums {
	double peak, mean, end;
};
struct mt_series_sums mt_series_sum_up(const struct mt_series *series);

/* As many of the points as a line across `columns` pixels between x `low` and `high` needs to look
 * the same: of each column the first, the least, the highest and the last. No peak is lost. There
 * must be no gaps. `out` has room for 4 * (columns + 1); how many were written. */
size_t mt_series_thin(const struct mt_series *series, double low, double high, size_t columns,
		      struct mt_point *out);

#endif
