/* ctl/diagnose/trend.h -- decides whether a figure grows. Pure, but for memory.
 *
 * The rate is the estimator of Theil and Sen: the median of the slopes between all pairs of points,
 * with the 95 % interval that Kendall's statistic gives (P. K. Sen, 1968). One step or a few
 * outliers do not move it as they move a line of least squares. A figure that rises and falls in
 * rounds is evaluated by its minima only, one for each round. Growth must continue: the levels of
 * the parts of the time show a rise that ends (a warm-up), or that happens once (a step). What
 * follows such a rise is evaluated by itself.
 *
 * "Flat" is a claim, too: it needs five rounds if there are rounds, and an interval whose upper
 * end is small. If the points are too few for either answer the shape is MT_TREND_UNDECIDED. */
#ifndef MT_CTL_DIAGNOSE_TREND_H
#define MT_CTL_DIAGNOSE_TREND_H

#include <stdbool.h>
#include <stddef.h>

/* at most; the cost of a fit is its square. More points are thinned: of each short time the lowest
 * and the highest stay */
#define MT_TREND_POINTS 512
#define MT_TREND_PARTS  6 /* of the time, if there are no rounds */
/* fewer prove nothing: four minima rise by chance in one case of 24 */
#define MT_TREND_ROUNDS_MIN 5

enum mt_trend_shape {
	MT_TREND_FEW,  /* not enough points, or too short */
	MT_TREND_FLAT, /* no change that matters */
	MT_TREND_GROWS,
	MT_TREND_FLATTENS, /* grew at first, and has been flat since */
	MT_TREND_STEPS,    /* grew once, and has been flat since */
	MT_TREND_FALLS,
	MT_TREND_UNDECIDED /* see enum mt_trend_doubt */
};

/* Why a shape is undecided. */
enum mt_trend_doubt {
	MT_TREND_SURE,
	MT_TREND_FEW_ROUNDS, /* fewer than MT_TREND_ROUNDS_MIN rounds */
	MT_TREND_NOISE,      /* a leak that matters would be lost in the ups and downs */
	MT_TREND_SLOWING,    /* grows ever more slowly, and has not stopped long enough */
	MT_TREND_ONE_STEP,   /* rose once, and the time since is too short to tell whether again */
	MT_TREND_ONSET       /* has begun to rise a short while ago */
};

struct mt_trend_point {
	double at_s;
	double value;
};

struct mt_trend_series {
	const struct mt_trend_point *points; /* in the order of time */
	size_t count;
	/* times at which the program has said that a round ends; in order */
	const double *marks;
	size_t marks_count;
	double least_min; /* the smallest growth that ever matters, in the unit of the values */
	/* the whole that the figure is a part of (RSS): shares are of this. 0: the figure's own
	 * highest value */
	double scale;
};

struct mt_trend {
	enum mt_trend_shape shape;
	enum mt_trend_doubt doubt;
	/* per second; the interval contains the true slope with 95 % */
	double slope, slope_low, slope_high;
	double r_squared; /* of the straight line through the points that decide */
	double growth;    /* between the first and the last level */
	double least;     /* growth below this does not matter */
	double lowest, highest, last;
	double seconds;    /* of all points */
	double decided_s;  /* of the points that decided: all, or those after a rise or a fall */
	double period_s;   /* of a round, the median; 0: no rounds */
	double needed_s;   /* undecided: the time to sample for, a guess from what was seen */
	double confidence; /* in the shape, 0 to 1 */
	size_t points;     /* those that decide: all, or the minima of the rounds */
	size_t rounds;     /* in the time that decides */
	/* falls in that time that are too close for the samples to be rounds */
	size_t short_rounds;
	bool rounds_marked;
	size_t grown_parts, parts;
};

/* Judges a series. */
struct mt_trend mt_trend_find(const struct mt_trend_series *series);

/* Whether a flat figure has also stayed at one level: its lowest points may be flat while it goes
 * up and down. Of any other shape: true. */
bool mt_trend_is_level(const struct mt_trend *trend);

/* Returns the word for a shape: "grows", "flat". */
const char *mt_trend_word(enum mt_trend_shape shape);

/* Returns the word for a doubt: "few rounds"; "" for none. */
const char *mt_trend_doubt_word(enum mt_trend_doubt doubt);

#endif
