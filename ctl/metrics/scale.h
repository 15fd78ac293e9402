/* ctl/metrics/scale.h -- maps values to positions, and chooses the round values of an axis. Pure.
 */
#ifndef MT_CTL_METRICS_SCALE_H
#define MT_CTL_METRICS_SCALE_H

#include <stddef.h>

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

#endif
