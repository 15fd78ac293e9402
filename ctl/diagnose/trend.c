/* ctl/diagnose/trend.c -- see trend.h. */
#include "ctl/diagnose/trend.h"

#include <math.h>
#include <stdlib.h>

#include "ctl/output/error.h"

#define POINTS_MIN  6
#define SECONDS_MIN 1.5
/* from here on the length does not lower confidence */
#define SECONDS_ENOUGH 20.0
#define LIVE_DROPS_MIN 3
/* four minima rise by chance in one case of 24, which is no interval of 95 % */
#define LIVE_DROPS_ENOUGH 5
/* of the whole range: a larger fall is the end of a round, not noise */
#define TOOTH_SHARE 0.25
#define PART_SHARE  0.25 /* of the mean growth of a part: then the part has grown */
#define LATE_SHARE  0.4  /* of the time, at its end */
/* of even growth in that time; less means that it flattens */
#define LATE_MIN 0.5
/* a minimum may be missed by one step between two samples: so much is no growth */
#define GRAIN_FACTOR 1.5
#define Z95          1.959964

/* The compared levels, in the order of time. */
struct levels {
	struct mt_trend_point at[MT_TREND_POINTS];
	size_t count;
	/* the possible error of a minimum: the median rise from one sample to the next after it */
	double grain;
};

const char *mt_trend_word(enum mt_trend_shape shape)
{
	static const char *const words[] = {"unknown",  "flat",  "grows",
					    "flattens", "steps", "falls"};

	return words[shape];
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The slopes of all pairs: their median is the rate, and Kendall's statistic gives the bounds. */
static void fit(const struct mt_trend_point *points, size_t n, struct mt_trend *out)
{
	double *slopes =
		mt_error_check_memory(malloc(n * n / 2 * sizeof(*slopes) + sizeof(*slopes)));
	double spread = Z95 * sqrt((double)n * (double)(n - 1) * (double)(2 * n + 5) / 18);
	size_t count = 0;
	double low, high;

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			if (points[j].at_s > points[i].at_s)
				slopes[count++] = (points[j].value - points[i].value) /
						  (points[j].at_s - points[i].at_s);
	out->points = n;
	if (count) {
		out->slope = median(slopes, count);
		low = floor(((double)count - spread) / 2) - 1;
		high = ceil(((double)count + spread) / 2);
		out->slope_low = slopes[low > 0 ? (size_t)low : 0];
		out->slope_high = slopes[high < (double)count ? (size_t)high : count - 1];
	}
	free(slopes);
}

static double r_squared(const struct mt_trend_point *points, size_t n)
{
	double x = 0, y = 0, xx = 0, xy = 0, yy = 0;

	for (size_t i = 0; i < n; i++) {
		x += points[i].at_s / (double)n;
		y += points[i].value / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		double dx = points[i].at_s - x, dy = points[i].value - y;

		xx += dx * dx;
		xy += dx * dy;
		yy += dy * dy;
	}
	return xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 0;
}

/* Finds the minimum of each round. A fall of `tooth` from a peak starts a search for the minimum,
 * and a rise of `tooth` ends it. Returns the number of falls; a minimum without a rise after it
 * does not count yet. */
static size_t find_live_drops(const struct mt_trend_point *points, size_t n, double tooth,
			      struct levels *out)
{
	struct mt_trend_point low = points[0];
	double peak = points[0].value, steps[MT_TREND_POINTS];
	bool down = false;
	size_t falls = 0, rises = 0;

	for (size_t i = 1; i < n; i++) {
		double value = points[i].value;

		if (down && points[i - 1].value <= low.value && value > low.value)
			steps[rises++] = value - low.value;

		if (!down && value > peak)
			peak = value;
		if (down ? value < low.value : peak - value >= tooth) {
			falls += !down;
			down = true;
			low = points[i];
		} else if (down && value - low.value >= tooth) {
			out->at[out->count++] = low;
			down = false;
			peak = value;
		}
	}
	out->grain = rises ? median(steps, rises) : 0;
	return falls;
}

/* The level of each part of the time: its median, or its minimum where there are rounds. */
static void find_parts(const struct mt_trend_point *points, size_t n, bool lowest,
		       struct levels *out)
{
	double from = points[0].at_s, span = (points[n - 1].at_s - from) / MT_TREND_PARTS;
	double values[MT_TREND_POINTS];

	for (size_t part = 0, i = 0; part < MT_TREND_PARTS; part++) {
		double end = from + span * (double)(part + 1);
		size_t first = i, count = 0;

		for (; i < n && (points[i].at_s < end || part == MT_TREND_PARTS - 1); i++)
			values[count++] = points[i].value;
		if (!count)
			continue;
		out->at[out->count].at_s = (points[first].at_s + points[i - 1].at_s) / 2;
		out->at[out->count].value = median(values, count);
		if (lowest)
			out->at[out->count].value = values[0];
		out->count++;
	}
}

/* The growth in the last part of the time, relative to even growth: 1 is even, 0 is none. */
static double late_growth(const struct levels *levels, double growth)
{
	size_t late = (size_t)lround((double)(levels->count - 1) * LATE_SHARE);
	double share = (double)(late ? late : 1) / (double)(levels->count - 1);
	double since = levels->at[levels->count - 1].value -
		       levels->at[levels->count - 1 - (late ? late : 1)].value;

	return since / growth / share;
}

static void count_grown(const struct levels *levels, struct mt_trend *out)
{
	double mean = out->growth / (double)(levels->count - 1);

	out->parts = levels->count - 1;
	for (size_t i = 1; i < levels->count; i++)
		out->grown_parts +=
			levels->at[i].value - levels->at[i - 1].value >= mean * PART_SHARE;
}

/* 1 less the half width of the interval relative to the slope; 0 at least. */
static double narrowness(const struct mt_trend *trend)
{
	double doubt = trend->slope != 0
			       ? (trend->slope_high - trend->slope_low) / (2 * fabs(trend->slope))
			       : 1;

	return doubt < 1 ? 1 - doubt : 0;
}

static void judge(const struct levels *levels, double least, struct mt_trend *out)
{
	double late;

	out->growth = levels->at[levels->count - 1].value - levels->at[0].value;
	out->shape = out->growth <= -least && out->slope_high < 0 ? MT_TREND_FALLS : MT_TREND_FLAT;
	if (out->growth < least || out->growth < levels->grain * GRAIN_FACTOR)
		return;
	count_grown(levels, out);
	late = late_growth(levels, out->growth);
	if (out->grown_parts == 1 && out->parts > 2)
		out->shape = MT_TREND_STEPS;
	else if (out->slope_low > 0)
		out->shape = late < LATE_MIN ? MT_TREND_FLATTENS : MT_TREND_GROWS;
}

static double length_factor(double seconds)
{
	return 0.4 + 0.6 * (seconds < SECONDS_ENOUGH ? seconds / SECONDS_ENOUGH : 1);
}

static void rate_confidence(bool few_rounds, struct mt_trend *out)
{
	out->confidence = length_factor(out->seconds);
	if (out->shape == MT_TREND_GROWS)
		out->confidence *= (double)out->grown_parts / (double)out->parts *
				   (0.5 + 0.5 * narrowness(out));
	else if (out->shape != MT_TREND_FLAT)
		out->confidence *= 0.7;
	if (few_rounds)
		out->confidence *= 0.6;
}

static void find_range(const struct mt_trend_point *points, size_t n, struct mt_trend *out)
{
	out->lowest = out->highest = points[0].value;
	for (size_t i = 1; i < n; i++) {
		out->lowest = points[i].value < out->lowest ? points[i].value : out->lowest;
		out->highest = points[i].value > out->highest ? points[i].value : out->highest;
	}
	out->last = points[n - 1].value;
	out->seconds = points[n - 1].at_s - points[0].at_s;
}

struct mt_trend mt_trend_of(const struct mt_trend_point *points, size_t count, double least)
{
	struct mt_trend out = {0};
	struct levels *levels;
	size_t live_drops;
	double tooth;

	if (count > MT_TREND_POINTS) { /* keeps the newest */
		points += count - MT_TREND_POINTS;
		count = MT_TREND_POINTS;
	}
	if (count)
		find_range(points, count, &out);
	if (count < POINTS_MIN || out.seconds < SECONDS_MIN)
		return out;
	levels = mt_error_check_memory(calloc(1, sizeof(*levels)));
	tooth = (out.highest - out.lowest) * TOOTH_SHARE;
	out.rounds = find_live_drops(points, count, tooth > least ? tooth : least, levels);
	live_drops = levels->count;
	if (live_drops < LIVE_DROPS_MIN) {
		levels->count = 0;
		find_parts(points, count, out.rounds > 0, levels);
	}
	if (levels->count >= LIVE_DROPS_MIN) {
		bool by_levels = out.rounds > 0;
		const struct mt_trend_point *judged = by_levels ? levels->at : points;

		fit(judged, by_levels ? levels->count : count, &out);
		out.r_squared = r_squared(judged, out.points);
		judge(levels, least, &out);
		rate_confidence(by_levels && live_drops < LIVE_DROPS_ENOUGH, &out);
	}
	free(levels);
	return out;
}
