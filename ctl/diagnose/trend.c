#include "ctl/diagnose/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics/series.h"
#include "ctl/output/error.h"

#define POINTS_MIN  6
#define SECONDS_MIN 1.5
/* from here on the length does not lower confidence */
#define SECONDS_ENOUGH 20.0
/* of the whole range: a larger fall is the end of a round, not noise */
#define TOOTH_SHARE 0.25
/* of the scale: a smaller range has no rounds that could hide anything */
#define ROUNDS_RANGE 0.03
#define PART_SHARE   0.25 /* of the mean growth of a part: then the part has grown */
#define LATE_SHARE   0.4  /* of the time, at its end */
/* of even growth in that time; less means that it flattens */
#define LATE_MIN 0.5
/* the same after a rise that has slowed down, since a cache that fills slows down all the time, and
 * where the levels are exact */
#define LATE_MIN_AFTER 0.85
#define LATE_MIN_EXACT 0.75
/* a minimum may be missed by one step between two samples: so much is no growth */
#define GRAIN_FACTOR 1.5
#define Z95          1.959964
#define Z997         2.967738
/* Growth of less than this in the time does not matter: 1.4 GB a day, or a share of the scale,
 * whichever is less. */
#define LEAST_PER_S 16384.0
#define LEAST_SHARE 0.03
#define LEAST_NOISE 0.001 /* of the values; less is noise of the figures */
/* What is not seen must be less than this: of the scale, a round, or in the time (and as much again
 * in each UNSEEN_MORE_S) */
#define UNSEEN_ROUND  0.008
#define UNSEEN_TIME   0.03
#define UNSEEN_MORE_S 900.0
#define UNSEEN_FLOOR  4.0   /* times least_min */
#define SLIGHT_SHARE  0.125 /* of least_min: a steady rise of less is noise */
/* times the longest time between two falls: a longer time without a fall is no round any more */
#define ROUNDS_OVER   2.5
#define EVENT_TAIL_S  30.0  /* flat so long after a single peak */
#define EVENT_SHARE   0.005 /* of the scale: the level after it may differ so much */
#define TAIL_SHARE    0.1   /* of the time: less is too short to be evaluated by itself */
#define TAIL_FLAT     0.75  /* of the time that a rise took: flat so long after it */
#define TAIL_GROWS    0.5   /* of the time: growth for so long after a rise that has slowed down */
#define STEP_TAIL     2.0   /* times the time before a step */
#define REST_SHARE    0.1   /* of a rise: what is left of it when it has ended */
#define ROUND_SAMPLES 8     /* of a round that is none of the noise's */
#define LEVEL_SHARE   0.15  /* of the highest value: who moves within it has one level */
#define FIT_POINTS    128
#define WINDOWS_MAX   12
#define NEEDED_MIN_S  30.0
/* of the interval, and of R2: growth below both is no more than possible */
#define VAGUE_NARROWNESS 0.25
#define VAGUE_R2         0.1
#define VAGUE_TRUST      0.6

/* Points that are evaluated together: the end of the series. */
struct window {
	struct mt_trend_point at[MT_TREND_POINTS];
	size_t count;
	const double *marks;
	size_t marks_count;
	double least_min, scale;
	bool has_slowed; /* what came before it has slowed down */
	/* the time that a rise before it took, which a flat time after it must reach */
	double rise_s;
};

/* The compared levels, in the order of time. */
struct levels {
	struct mt_trend_point at[MT_TREND_POINTS];
	size_t count;
	/* the possible error of a level, see find_live_drops and find_parts */
	double grain;
};

/* The rounds of a window. */
struct rounds {
	size_t count;
	/* longest_s: the longest time from one end to the next, or from the first point to the
	 * first end */
	double period_s, longest_s, last_end_s, tail_s;
	double before; /* lowest value before the first fall */
	double after;  /* lowest value after the last one */
};

const char *mt_trend_word(enum mt_trend_shape shape)
{
	static const char *const words[] = {"unknown", "flat",  "grows",    "flattens",
					    "steps",   "falls", "undecided"};

	return words[shape];
}

bool mt_trend_is_level(const struct mt_trend *trend)
{
	return trend->shape != MT_TREND_FLAT || trend->rounds + trend->short_rounds < 2 ||
	       trend->highest - trend->lowest <= trend->highest * LEVEL_SHARE;
}

const char *mt_trend_doubt_word(enum mt_trend_doubt doubt)
{
	static const char *const words[] = {"",        "few rounds", "noise",
					    "slowing", "one step",   "onset"};

	return words[doubt];
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), mt_series_compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- windows ---- */

/* Keeps the lowest and the highest point of each group of neighbours, in the order of time. */
static void thin(const struct mt_trend_point *points, size_t count, struct window *out)
{
	size_t group = 2 * ((count + MT_TREND_POINTS - 1) / MT_TREND_POINTS);

	out->count = 0;
	for (size_t from = 0; from < count; from += group) {
		size_t to = from + group < count ? from + group : count, low = from, high = from;

		for (size_t i = from; i < to; i++) {
			low = points[i].value < points[low].value ? i : low;
			high = points[i].value >= points[high].value ? i : high;
		}
		out->at[out->count++] = points[low < high ? low : high];
		if (low != high)
			out->at[out->count++] = points[low < high ? high : low];
	}
}

static void open_window(const struct mt_trend_series *series, double from_s, struct window *out)
{
	size_t first = 0, mark = 0;

	while (first < series->count && series->points[first].at_s < from_s)
		first++;
	while (mark < series->marks_count && series->marks[mark] <= from_s)
		mark++;
	if (series->count - first <= MT_TREND_POINTS) {
		out->count = series->count - first;
		if (out->count)
			memcpy(out->at, series->points + first, out->count * sizeof(out->at[0]));
	} else {
		thin(series->points + first, series->count - first, out);
	}
	out->marks = series->marks ? series->marks + mark : NULL;
	out->marks_count = series->marks_count - mark;
}

static double span_of(const struct window *window)
{
	return window->count ? window->at[window->count - 1].at_s - window->at[0].at_s : 0;
}

/* ---- fits ---- */

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

/* ---- rounds and levels ---- */

/* Finds the minimum of each round. A fall of `tooth` from a peak starts a search for the minimum,
 * and a rise of `tooth` ends it. A minimum without a rise after it does not count yet. `ends` has
 * the time of each fall with the minimum after it, *last_low_s the time of the last minimum. The
 * grain is the median rise from one sample to the
 * next after a minimum. */
static void find_live_drops(const struct window *window, double tooth, struct levels *out,
			    struct levels *ends, double *last_low_s)
{
	const struct mt_trend_point *points = window->at;
	struct mt_trend_point low = points[0];
	double peak = points[0].value, steps[MT_TREND_POINTS];
	bool down = false;
	size_t rises = 0;

	for (size_t i = 1; i < window->count; i++) {
		double value = points[i].value;

		if (down && points[i - 1].value <= low.value && value > low.value)
			steps[rises++] = value - low.value;
		if (!down && value > peak)
			peak = value;
		if (down ? value < low.value : peak - value >= tooth) {
			if (!down)
				ends->at[ends->count++].at_s = points[i].at_s;
			down = true;
			low = points[i];
			ends->at[ends->count - 1].value = low.value;
			*last_low_s = low.at_s;
		} else if (down && value - low.value >= tooth) {
			out->at[out->count++] = low;
			down = false;
			peak = value;
		}
	}
	out->grain = rises ? median(steps, rises) * GRAIN_FACTOR : 0;
}

/* The minimum of each round that the program has marked the end of. */
static void find_marked(const struct window *window, struct levels *out, struct levels *ends)
{
	size_t i = 0;

	for (size_t mark = 0; mark < window->marks_count && ends->count < MT_TREND_POINTS; mark++) {
		struct mt_trend_point low = {0};
		bool any = false;

		for (; i < window->count && window->at[i].at_s <= window->marks[mark]; i++) {
			if (!any || window->at[i].value < low.value)
				low = window->at[i];
			any = true;
		}
		if (any)
			out->at[out->count++] = low;
		ends->at[ends->count++] = (struct mt_trend_point){window->marks[mark], low.value};
	}
}

/* The level of each part of the time is its median. A part without a point, in which the process
 * published nothing since nothing moved, has the level of the last point before. The grain is three
 * standard errors of the difference of two medians, from the differences of neighbours: a slow rise
 * is not in them. */
static void find_parts(const struct window *window, struct levels *out)
{
	const struct mt_trend_point *points = window->at;
	size_t n = window->count;
	double from = points[0].at_s, span = span_of(window) / MT_TREND_PARTS;
	double values[MT_TREND_POINTS];

	for (size_t i = 1; i < n; i++)
		values[i - 1] = fabs(points[i].value - points[i - 1].value);
	out->grain = 3 * sqrt(2) * 1.25 * median(values, n - 1) * 1.4826 / sqrt(2) /
		     sqrt((double)n / MT_TREND_PARTS);
	for (size_t part = 0, i = 0; part < MT_TREND_PARTS; part++) {
		double end = from + span * (double)(part + 1);
		size_t first = i, count = 0;

		for (; i < n && (points[i].at_s < end || part == MT_TREND_PARTS - 1); i++)
			values[count++] = points[i].value;
		out->at[out->count].at_s =
			count ? (points[first].at_s + points[i - 1].at_s) / 2 : end - span / 2;
		out->at[out->count++].value = count ? median(values, count) : points[i - 1].value;
	}
}

static double lowest_between(const struct window *window, double from_s, double to_s)
{
	double lowest = INFINITY;

	for (size_t i = 0; i < window->count; i++)
		if (window->at[i].at_s >= from_s && window->at[i].at_s <= to_s)
			lowest = fmin(lowest, window->at[i].value);
	return lowest;
}

static void measure_rounds(const struct window *window, const struct levels *ends,
			   double last_low_s, struct rounds *out)
{
	double start = window->at[0].at_s, end = window->at[window->count - 1].at_s, before = start,
	       gaps[MT_TREND_POINTS];
	size_t count = 0;

	for (size_t i = 0; i < ends->count; i++) {
		double gap = ends->at[i].at_s - before;

		out->longest_s = fmax(out->longest_s, gap);
		if (i)
			gaps[count++] = gap;
		before = ends->at[i].at_s;
	}
	out->last_end_s = last_low_s;
	out->tail_s = end - before;
	out->period_s = count ? median(gaps, count) : fmax(out->longest_s, out->tail_s);
	out->after = ends->at[ends->count - 1].value;
	out->before = lowest_between(window, start, start + (ends->at[0].at_s - start) / 2);
}

/* ---- verdict ---- */

static bool slows_down(const struct window *window, const struct levels *levels, double growth)
{
	size_t last = levels->count - 1, part = (size_t)lround((double)last * LATE_SHARE),
	       first = last - (part ? part : 1);
	/* the growth in the last part of the time, relative to even growth: 1 is even, 0 is none */
	double late = (levels->at[last].value - levels->at[first].value) / growth /
		      ((double)(last - first) / (double)last),
	       error = levels->grain / growth / LATE_SHARE;

	return late < (window->has_slowed ? LATE_MIN_AFTER : LATE_MIN) ||
	       late + error < LATE_MIN_EXACT;
}

static void count_grown(const struct levels *levels, struct mt_trend *out)
{
	double mean = out->growth / (double)(levels->count - 1);

	out->parts = levels->count - 1;
	for (size_t i = 1; i < levels->count; i++)
		out->grown_parts +=
			levels->at[i].value - levels->at[i - 1].value >= mean * PART_SHARE;
}

static void find_range(const struct window *window, struct mt_trend *out)
{
	const struct mt_trend_point *points = window->at;
	size_t n = window->count;

	if (!n)
		return;
	out->lowest = out->highest = points[0].value;
	for (size_t i = 1; i < n; i++) {
		out->lowest = fmin(out->lowest, points[i].value);
		out->highest = fmax(out->highest, points[i].value);
	}
	out->last = points[n - 1].value;
	out->seconds = out->decided_s = span_of(window);
}

static void doubt(enum mt_trend_doubt why, double needed_s, struct mt_trend *out)
{
	out->shape = MT_TREND_UNDECIDED;
	out->doubt = why;
	out->needed_s = fmax(needed_s, NEEDED_MIN_S);
}

/* The time of the first level from which on little of the rise is left. */
static double rise_end(const struct levels *levels, double growth, double least)
{
	double last = levels->at[levels->count - 1].value, rest = fmax(least, growth * REST_SHARE);
	size_t i = 1;

	while (i + 1 < levels->count && last - levels->at[i].value > rest)
		i++;
	return levels->at[i].at_s;
}

/* The time of the first point above the middle of the one large step. */
static double step_time(const struct window *window, const struct levels *levels)
{
	size_t largest = 1;
	double middle, at_s = window->at[0].at_s;

	for (size_t i = 2; i < levels->count; i++)
		if (levels->at[i].value - levels->at[i - 1].value >
		    levels->at[largest].value - levels->at[largest - 1].value)
			largest = i;
	middle = (levels->at[largest].value + levels->at[largest - 1].value) / 2;
	for (size_t i = 0; i + 1 < window->count && window->at[i].at_s <= levels->at[largest].at_s;
	     i++)
		if (window->at[i].value < middle)
			at_s = window->at[i + 1].at_s;
	return at_s;
}

/* The time of the last level that is near the first one. */
static double onset_time(const struct levels *levels, double growth)
{
	double from_s = levels->at[0].at_s;

	for (size_t i = 1; i < levels->count; i++)
		if (levels->at[i].value <= levels->at[0].value + growth * REST_SHARE)
			from_s = levels->at[i].at_s;
	return from_s;
}

/* The lowest level, if the figure has fallen and risen again since. */
static const struct mt_trend_point *valley(const struct levels *levels, double least)
{
	const struct mt_trend_point *lowest = levels->at, *last = &levels->at[levels->count - 1];

	for (size_t i = 1; i < levels->count; i++)
		if (levels->at[i].value < lowest->value)
			lowest = &levels->at[i];
	return lowest != levels->at && last->value - lowest->value >= least ? lowest : NULL;
}

/* What to do with a window: the shape is in *out; `next_s` is where a window begins that is to be
 * evaluated in its place, NAN for none. */
struct step {
	double next_s;
	/* what the shape is if that window is flat, and where it is too short */
	enum mt_trend_shape if_flat;
	enum mt_trend_doubt if_short;
	double needed_s;
	bool has_slowed;
	double rise_s;
	bool only_growth; /* that window counts only if it grows */
};

static const struct step ends_here = {.next_s = NAN};

static struct step next(double at_s, enum mt_trend_shape if_flat, enum mt_trend_doubt if_short,
			double needed_s)
{
	return (struct step){
		.next_s = at_s, .if_flat = if_flat, .if_short = if_short, .needed_s = needed_s};
}

static struct step shape_of_rise(const struct window *window, const struct levels *levels,
				 struct mt_trend *out)
{
	double start = window->at[0].at_s, end = window->at[window->count - 1].at_s, at_s, seen;
	struct step step;

	count_grown(levels, out);
	if (!out->rounds && out->last < levels->at[0].value + out->growth / 2) {
		doubt(MT_TREND_NOISE, 2 * (end - start), out); /* the rise is gone again */
		return ends_here;
	}
	if (out->grown_parts == 1 && out->parts > 2) {
		at_s = step_time(window, levels);
		seen = fmax(at_s - start, end - at_s);
		doubt(MT_TREND_ONE_STEP, 3 * seen, out);
		return end - at_s >= STEP_TAIL * (at_s - start)
			       ? next(at_s, MT_TREND_STEPS, MT_TREND_ONE_STEP, 3 * seen)
			       : ends_here;
	}
	if (out->slope_low <= 0) {
		at_s = onset_time(levels, out->growth);
		doubt(MT_TREND_ONSET, 2 * (end - start), out);
		return at_s > start && !out->rounds
			       ? next(at_s, MT_TREND_FLAT, MT_TREND_ONSET, 2 * (end - start))
			       : ends_here;
	}
	if (!slows_down(window, levels, out->growth)) {
		out->shape = MT_TREND_GROWS;
		return ends_here;
	}
	at_s = rise_end(levels, out->growth, out->least);
	doubt(MT_TREND_SLOWING, 2 * (end - start), out);
	step = next(at_s, MT_TREND_FLATTENS, MT_TREND_SLOWING, 2 * (end - start));
	step.has_slowed = true;
	step.rise_s = at_s - start;
	return step;
}

/* A flat figure hides a leak below the upper end of its interval; of one of 99.7 %, since "healthy"
 * is not to be said by chance. */
static void check_power(const struct window *window, struct mt_trend *out)
{
	double high = out->slope + (out->slope_high - out->slope) * Z997 / Z95;
	double share = UNSEEN_TIME * (1 + out->decided_s / UNSEEN_MORE_S);
	double in_time = high * out->decided_s /
			 fmax(share * window->scale, UNSEEN_FLOOR * window->least_min);
	double in_round =
		high * out->period_s / fmax(UNSEEN_ROUND * window->scale, window->least_min / 8);
	double spacing = span_of(window) / (double)(window->count - 1);
	double unseen =
		out->period_s < ROUND_SAMPLES * spacing ? fmax(in_time, in_round) : in_round;

	if (unseen > 1)
		doubt(MT_TREND_NOISE, 1.2 * out->decided_s * pow(unseen, 2.0 / 3), out);
}

/* A rise that is too small for growth, and too steady and too fast for noise. */
static bool has_slight_rise(const struct window *window, const struct levels *levels,
			    const struct mt_trend *trend)
{
	double least = fmax(SLIGHT_SHARE * window->least_min, levels->grain);

	return trend->growth >= fmax(least, LEAST_PER_S * trend->decided_s) &&
	       trend->slope_low * trend->decided_s >= least;
}

static struct step shape_of_levels(const struct window *window, const struct levels *levels,
				   struct mt_trend *out)
{
	const struct mt_trend_point *low;
	double least = fmax(out->least, levels->grain);

	out->growth = levels->at[levels->count - 1].value - levels->at[0].value;
	out->shape = MT_TREND_FLAT;
	if (out->growth >= least)
		return shape_of_rise(window, levels, out);
	low = out->growth <= -least ? valley(levels, least) : NULL;
	if (out->growth <= -least && out->slope_high < 0)
		out->shape = MT_TREND_FALLS;
	else if (has_slight_rise(window, levels, out))
		doubt(MT_TREND_ONSET, fmax(SECONDS_ENOUGH, 2 * out->decided_s), out);
	else
		check_power(window, out);
	return low ? (struct step){.next_s = low->at_s, .only_growth = true} : ends_here;
}

/* Fewer rounds than a verdict takes. If nothing has fallen for a long time they are over. A
 * single peak with the same level before and after was an event. */
static struct step shape_of_few_rounds(const struct window *window, const struct rounds *rounds,
				       struct mt_trend *out)
{
	double needed = (MT_TREND_ROUNDS_MIN + 1) * rounds->period_s;
	bool are_over =
		rounds->tail_s >= ROUNDS_OVER * rounds->longest_s && rounds->tail_s >= SECONDS_MIN;
	bool was_event = rounds->count == 1 && !out->rounds_marked &&
			 rounds->tail_s >= EVENT_TAIL_S &&
			 fabs(rounds->after - rounds->before) <= EVENT_SHARE * window->scale;

	doubt(MT_TREND_FEW_ROUNDS, needed, out);
	out->confidence = 0.9;
	if (!are_over && !was_event)
		return ends_here;
	return next(rounds->last_end_s, MT_TREND_FLAT, MT_TREND_FEW_ROUNDS, needed);
}

static double least_of(const struct window *window, const struct mt_trend *trend)
{
	double least = fmin(LEAST_PER_S * trend->seconds, LEAST_SHARE * window->scale);

	return fmax(fmax(least, window->least_min), trend->highest * LEAST_NOISE);
}

/* Finds the rounds of the window, and the level of each. */
static void find_rounds(const struct window *window, struct levels *levels, struct rounds *rounds,
			struct mt_trend *out)
{
	struct levels *ends = mt_error_check_memory(calloc(1, sizeof(*ends)));
	double range = out->highest - out->lowest, last_low_s = 0;

	out->rounds_marked = window->marks_count > 0;
	if (out->rounds_marked)
		find_marked(window, levels, ends);
	else if (range >= ROUNDS_RANGE * window->scale)
		find_live_drops(window, fmax(range * TOOTH_SHARE, out->least), levels, ends,
				&last_low_s);
	if (ends->count)
		measure_rounds(window, ends,
			       out->rounds_marked ? ends->at[ends->count - 1].at_s : last_low_s,
			       rounds);
	rounds->count = levels->count;
	if (!out->rounds_marked && !levels->count && ends->count)
		rounds->count = window->at[window->count - 1].at_s - last_low_s >=
				TAIL_SHARE * out->seconds; /* 0: it still falls */
	out->rounds = rounds->count;
	out->period_s = rounds->count > 1 ? rounds->period_s : 0;
	free(ends);
}

/* Fits all points; many of them by the medians of neighbours, since pairs are many. A constant
 * needs no fit. */
static void fit_all(const struct window *window, struct mt_trend *out)
{
	size_t group = (window->count + FIT_POINTS - 1) / FIT_POINTS, count = 0;
	struct mt_trend_point at[FIT_POINTS];
	double values[MT_TREND_POINTS];

	out->points = window->count;
	if (out->highest <= out->lowest)
		return;
	for (size_t from = 0; from < window->count; from += group) {
		size_t n = window->count - from < group ? window->count - from : group;

		for (size_t i = 0; i < n; i++)
			values[i] = window->at[from + i].value;
		at[count].at_s = (window->at[from].at_s + window->at[from + n - 1].at_s) / 2;
		at[count++].value = median(values, n);
	}
	fit(at, count, out);
	out->r_squared = r_squared(at, count);
	out->points = window->count;
}

/* Fits the minima of the rounds, or all points if there are none. Rounds that are nearly as
 * short as the time between two samples may be noise: there the narrower interval decides. */
static void fit_better(const struct window *window, struct levels *levels,
		       const struct rounds *rounds, struct mt_trend *out)
{
	double spacing = span_of(window) / (double)(window->count - 1);
	struct mt_trend by_rounds = *out, by_points = *out;
	bool has_rounds = rounds->count > 0;

	if (has_rounds) {
		fit(levels->at, levels->count, &by_rounds);
		by_rounds.r_squared = r_squared(levels->at, levels->count);
		*out = by_rounds;
		if (rounds->period_s >= ROUND_SAMPLES * spacing || out->rounds_marked)
			return;
	}
	fit_all(window, &by_points);
	if (has_rounds && by_points.slope_high - by_points.slope_low >=
				  by_rounds.slope_high - by_rounds.slope_low)
		return;
	*out = by_points;
	out->rounds = 0;
	out->short_rounds = rounds->count;
	out->period_s = 0;
	levels->count = 0;
	find_parts(window, levels);
}

static struct step shape_of_window(const struct window *window, struct mt_trend *out)
{
	struct levels *levels = mt_error_check_memory(calloc(1, sizeof(*levels)));
	struct rounds rounds = {0};
	struct step step = ends_here;

	out->least = least_of(window, out);
	find_rounds(window, levels, &rounds, out);
	if (rounds.count && rounds.tail_s >= ROUNDS_OVER * rounds.longest_s &&
	    rounds.count >= MT_TREND_ROUNDS_MIN) {
		step = next(rounds.last_end_s, MT_TREND_FLAT, MT_TREND_ONSET, 2 * out->seconds);
	} else if (rounds.count && rounds.count < MT_TREND_ROUNDS_MIN) {
		step = shape_of_few_rounds(window, &rounds, out);
	} else {
		fit_better(window, levels, &rounds, out);
		if (levels->count >= 3)
			step = shape_of_levels(window, levels, out);
	}
	free(levels);
	return step;
}

/* 1 less the half width of the interval relative to the slope; 0 at least. */
static double narrowness(const struct mt_trend *trend)
{
	double width = trend->slope != 0
			       ? (trend->slope_high - trend->slope_low) / (2 * fabs(trend->slope))
			       : 1;

	return width < 1 ? 1 - width : 0;
}

/* How sure the shape is: by the time, and for growth by the parts that have grown and by the
 * interval. */
static void rate_confidence(struct mt_trend *out)
{
	double length = out->decided_s < SECONDS_ENOUGH ? out->decided_s / SECONDS_ENOUGH : 1;

	out->confidence = 0.4 + 0.6 * length;
	if (out->shape == MT_TREND_UNDECIDED)
		out->confidence = 0.9; /* that it cannot be told */
	else if (out->shape == MT_TREND_GROWS)
		out->confidence *= (0.5 + 0.5 * (double)out->grown_parts / (double)out->parts) *
				   (0.7 + 0.3 * narrowness(out));
	if (out->shape == MT_TREND_GROWS && narrowness(out) < VAGUE_NARROWNESS &&
	    out->r_squared < VAGUE_R2)
		out->confidence *= VAGUE_TRUST;
}

/* The last window says little beside a rise, or a growth that has slowed, of a longer time. */
static void doubt_short_tail(const struct window *window, double whole_s, struct mt_trend *out)
{
	if (out->shape == MT_TREND_FLAT && out->decided_s < TAIL_FLAT * window->rise_s)
		doubt(MT_TREND_SLOWING, 2 * whole_s, out);
	if (out->shape == MT_TREND_GROWS && window->has_slowed &&
	    out->decided_s < TAIL_GROWS * whole_s)
		doubt(MT_TREND_SLOWING, 2 * whole_s, out);
}

/* Judges ever shorter windows at the end of the series, as long as each says that what came before
 * is over. */
static void find_shape(const struct mt_trend_series *series, struct window *window,
		       struct mt_trend *out)
{
	const struct mt_trend whole = *out;
	struct mt_trend before;
	bool only_growth = false;
	enum mt_trend_shape if_flat = MT_TREND_FLAT;
	struct step step;

	for (int i = 0; i < WINDOWS_MAX; i++) {
		double tail_s;

		before = *out;
		*out = (struct mt_trend){0};
		find_range(window, out);
		step = shape_of_window(window, out);
		if (only_growth && out->shape != MT_TREND_GROWS) {
			*out = before;
			return;
		}
		out->lowest = whole.lowest;
		out->highest = whole.highest;
		out->seconds = whole.seconds;
		if (isnan(step.next_s))
			break;
		tail_s = window->at[window->count - 1].at_s - step.next_s;
		only_growth = step.only_growth;
		window->has_slowed |= step.has_slowed;
		window->rise_s = window->rise_s > 0 ? window->rise_s : step.rise_s;
		if (step.next_s > window->at[0].at_s)
			open_window(series, step.next_s, window);
		if (tail_s < fmax(SECONDS_MIN, TAIL_SHARE * whole.seconds) ||
		    window->count < POINTS_MIN || span_of(window) < SECONDS_MIN) {
			if (!only_growth)
				doubt(step.if_short, step.needed_s, out);
			break;
		}
		if_flat = step.if_flat != MT_TREND_FLAT ? step.if_flat : if_flat;
	}
	doubt_short_tail(window, whole.seconds, out);
	if (out->shape == MT_TREND_FLAT)
		out->shape = if_flat;
}

struct mt_trend mt_trend_find(const struct mt_trend_series *series)
{
	struct mt_trend out = {0};
	struct window *window = mt_error_check_memory(calloc(1, sizeof(*window)));

	window->least_min = series->least_min;
	open_window(series, -INFINITY, window);
	find_range(window, &out);
	window->scale = series->scale > 0 ? series->scale : out.highest;
	if (window->count >= POINTS_MIN && out.seconds >= SECONDS_MIN) {
		find_shape(series, window, &out);
		rate_confidence(&out);
	}
	free(window);
	return out;
}
