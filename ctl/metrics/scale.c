#include "ctl/metrics/series.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#define MINUTE       60.0
#define HOUR         3600.0
#define DAY          86400.0
#define CLOCK_WANTED 9 /* ticks with times of day, which are wide */

double mt_scale_position(const struct mt_scale *scale, double value)
{
	return scale->from +
	       (value - scale->low) / (scale->high - scale->low) * (scale->to - scale->from);
}

/* The smallest of 1, 2, 5, 10, 20, ... that is not below `least`. */
static double nice_above(double least)
{
	double power = pow(10, floor(log10(least)));
	static const double steps[] = {1, 2, 5, 10};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i] * power >= least * (1 - 1e-9))
			return steps[i] * power;
	return 10 * power;
}

static void add(struct mt_ticks *ticks, double at, double shown, const char *unit)
{
	struct mt_tick *tick;

	if (ticks->count == MT_TICKS_MAX)
		return;
	tick = &ticks->list[ticks->count++];
	tick->at = at;
	if (shown == 0)
		snprintf(tick->label, sizeof(tick->label), "0");
	else
		snprintf(tick->label, sizeof(tick->label), "%.7g %s", shown, unit);
}

void mt_ticks_bytes(double high, size_t wanted, struct mt_ticks *out)
{
	static const char *const units[] = {"MB", "GB", "TB", "PB", "EB"};
	double unit = 1048576, step;
	size_t name = 0, steps;

	if (!(high >= unit))
		high = unit;
	/* 1,500 MB rather than 1.46 GB */
	while (high >= 2000 * unit && name + 1 < sizeof(units) / sizeof(units[0])) {
		unit *= 1024;
		name++;
	}
	step = nice_above(high / unit / (double)wanted);
	steps = (size_t)ceil(high / unit / step * (1 - 1e-9));
	out->count = 0;
	for (size_t i = 0; i <= steps; i++)
		add(out, (double)i * step * unit, (double)i * step, units[name]);
}

/* Round steps of time. */
static double time_step(double least)
{
	static const double steps[] = {
		0.1,         0.2,  0.5,      1,          2,          5,           10,
		15,          30,   MINUTE,   2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE,
		30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR,   6 * HOUR,   12 * HOUR,   DAY};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i] >= least * (1 - 1e-9))
			return steps[i];
	return DAY * nice_above(least / DAY);
}

void mt_ticks_elapsed(double low, double high, size_t wanted, struct mt_ticks *out)
{
	double step = time_step((high - low) / (double)wanted), first = ceil(low / step - 1e-9);
	double unit = step < MINUTE ? 1 : step < 30 * MINUTE ? MINUTE : step < DAY / 2 ? HOUR : DAY;
	const char *name = step < MINUTE        ? "s"
			   : step < 30 * MINUTE ? "min"
			   : step < DAY / 2     ? "h"
						: "d";

	out->count = 0;
	for (double i = first; i * step <= high + step * 1e-9 && out->count < MT_TICKS_MAX; i++)
		add(out, i * step, i * step / unit, name);
}

static void add_clock(struct mt_ticks *ticks, double at, double realtime, double step)
{
	struct mt_tick *tick = &ticks->list[ticks->count];
	time_t seconds = (time_t)(realtime + 0.5);
	struct tm broken;
	const char *format;

	if (ticks->count == MT_TICKS_MAX || !localtime_r(&seconds, &broken))
		return;
	format = !broken.tm_hour && !broken.tm_min && !broken.tm_sec ? "%-d %b"
		 : step < MINUTE                                     ? "%H:%M:%S"
								     : "%H:%M";
	tick->at = at;
	if (strftime(tick->label, sizeof(tick->label), format, &broken))
		ticks->count++;
}

void mt_ticks_clock(double origin, double low, double high, struct mt_ticks *out)
{
	time_t seconds = (time_t)(origin + low);
	struct tm broken;
	double step = time_step(fmax((high - low) / CLOCK_WANTED, 1)),
	       offset = localtime_r(&seconds, &broken) ? (double)broken.tm_gmtoff : 0;
	double first = ceil((origin + low + offset) / step - 1e-9);

	out->count = 0;
	for (double i = first;
	     i * step - offset - origin <= high + step * 1e-9 && out->count < MT_TICKS_MAX; i++)
		add_clock(out, i * step - offset - origin, i * step - offset, step);
}
