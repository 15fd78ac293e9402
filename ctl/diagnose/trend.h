/* ctl/diagnose/trend.h -- whether a figure grows. Pure: points in, a judgement out, so that a table
 * can test it.
 *
 * The rate is Theil and Sen's: the median of the slopes between all pairs of points, with the 95 %
 * interval that Kendall's statistic gives it (P. K. Sen, 1968). One step, or a few wild points,
 * does not move it as it moves a line of least squares. A figure that goes up and down in rounds is
 * judged by its lowest points alone, one a round: what a round takes and gives back is no growth.
 * Growth must also go on: what rises at first and then stays (a warm-up), or once (a step), is told
 * apart by the levels of the parts of the time. */
#ifndef MT_CTL_DIAGNOSE_TREND_H
#define MT_CTL_DIAGNOSE_TREND_H

#include <stdbool.h>
#include <stddef.h>

/* most that are looked at: the square of it is what a fit costs */
#define MT_TREND_POINTS 512
#define MT_TREND_PARTS  6 /* of the time, where there are no rounds */

enum mt_trend_shape {
	MT_TREND_FEW,  /* not enough points, or too short, to say anything */
	MT_TREND_FLAT, /* no change that matters, or noise without a direction */
	MT_TREND_GROWS,
	MT_TREND_FLATTENS, /* grew at first, and hardly since */
	MT_TREND_STEPS,    /* grew once */
	MT_TREND_FALLS
};

struct mt_trend_point {
	double at_s;
	double value;
};

struct mt_trend {
	enum mt_trend_shape shape;
	/* a second; the interval holds the true one with 95 % */
	double slope, slope_low, slope_high;
	double r_squared; /* of the straight line through the points that were judged */
	double growth;    /* between the first and the last level */
	double lowest, highest, last;
	double seconds;
	double confidence; /* in the shape, 0 to 1 */
	size_t points;     /* that were judged: all, or the lowest of each round */
	size_t rounds;     /* ups and downs */
	size_t grown_parts, parts;
};

/* `least`: the smallest change over the whole time that matters. Points in the order of time. */
struct mt_trend mt_trend_of(const struct mt_trend_point *points, size_t count, double least);

/* "grows", "flat", ... */
const char *mt_trend_word(enum mt_trend_shape shape);

#endif
