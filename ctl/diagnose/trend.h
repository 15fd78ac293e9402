/* ctl/diagnose/trend.h -- decides whether a figure grows. Pure, but for memory.
 *
 * The rate is the estimator of Theil and Sen: the median of the slopes between all pairs of points,
 * with the 95 % interval that Kendall's statistic gives (P. K. Sen, 1968). One step or a few
 * outliers do not move it as they move a line of least squares. A figure that rises and falls in
 * rounds is judged by its minima alone, one for each round. Growth must continue: the levels of the
 * parts of the time show a rise that ends (a warm-up), or that happens once (a step). */
#ifndef MT_CTL_DIAGNOSE_TREND_H
#define MT_CTL_DIAGNOSE_TREND_H

#include <stdbool.h>
#include <stddef.h>

/* at most; the cost of a fit is its square */
#define MT_TREND_POINTS 512
#define MT_TREND_PARTS  6 /* of the time, where there are no rounds */

enum mt_trend_shape {
	MT_TREND_FEW,  /* not enough points, or too short */
	MT_TREND_FLAT, /* no change that matters, or noise without direction */
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
	/* per second; the interval contains the true slope with 95 % */
	double slope, slope_low, slope_high;
	double r_squared; /* of the straight line through the judged points */
	double growth;    /* between the first and the last level */
	double lowest, highest, last;
	double seconds;
	double confidence; /* in the shape, 0 to 1 */
	size_t points;     /* judged ones: all, or the minima of the rounds */
	size_t rounds;     /* rises and falls */
	size_t grown_parts, parts;
};

/* Judges points in the order of time. `least`: the smallest change over the whole time that
 * matters, in the unit of the values. Beyond MT_TREND_POINTS points only the newest count. */
struct mt_trend mt_trend_of(const struct mt_trend_point *points, size_t count, double least);

/* Returns the word for a shape: "grows", "flat". */
const char *mt_trend_word(enum mt_trend_shape shape);

#endif
