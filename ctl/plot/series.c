/* ctl/plot/series.c -- see series.h. */
#include "ctl/plot/series.h"

#include <math.h>
#include <stdlib.h>

static double seconds_since(uint64_t time_ns, uint64_t origin_ns)
{
	return time_ns >= origin_ns ? (double)(time_ns - origin_ns) / 1e9 : -(double)(origin_ns - time_ns) / 1e9;
}

/* To the last point where that has the same x. What is not known of one process is left out of the sum of all. */
static void add_point(struct mt_series *series, double x, double y)
{
	struct mt_point *last = series->count ? &series->list[series->count - 1] : NULL;

	if (last && last->x == x)
		last->y = isnan(last->y) ? y : isnan(y) ? last->y : last->y + y;
	else
		series->list[series->count++] = (struct mt_point){x, y};
}

struct mt_series mt_series_of(const struct mt_recording *recording, enum mt_recording_figure figure, uint64_t pid,
			      uint64_t origin_ns)
{
	struct mt_series series = {mt_error_check_memory(calloc(recording->samples_count + 1, sizeof(*series.list))), 0};

	for (size_t i = 0; i < recording->samples_count; i++) {
		const struct mt_recording_sample *sample = &recording->samples[i];
		uint64_t bytes = sample->bytes[figure];

		if (!pid || sample->pid == pid)
			add_point(&series, seconds_since(sample->time_ns, origin_ns),
				  bytes == MT_RECORDING_UNKNOWN ? NAN : (double)bytes);
	}
	return series;
}

struct mt_series mt_series_of_device(const struct mt_recording *recording, const struct mt_series_device *which,
				     uint64_t origin_ns)
{
	struct mt_series series = {mt_error_check_memory(calloc(recording->devices_count + 1, sizeof(*series.list))), 0};

	for (size_t i = 0; i < recording->devices_count; i++) {
		const struct mt_recording_device *device = &recording->devices[i];

		if (device->ordinal == which->ordinal && (!which->pid || device->pid == which->pid))
			add_point(&series, seconds_since(device->time_ns, origin_ns),
				  (double)(which->reserved ? device->reserved_bytes : device->allocated_bytes));
	}
	return series;
}

void mt_series_free(struct mt_series *series)
{
	free(series->list);
	*series = (struct mt_series){0};
}

void mt_series_cut(struct mt_series *series, double low, double high)
{
	size_t kept = 0;

	for (size_t i = 0; i < series->count; i++)
		if (series->list[i].x >= low && series->list[i].x <= high)
			series->list[kept++] = series->list[i];
	series->count = kept;
}

void mt_series_close_gaps(struct mt_series *series, double least)
{
	size_t kept = 0;
	double known = -INFINITY;

	for (size_t i = 0; i < series->count; i++) {
		size_t next = i;

		if (!isnan(series->list[i].y)) {
			known = series->list[i].x;
			series->list[kept++] = series->list[i];
			continue;
		}
		while (next < series->count && isnan(series->list[next].y))
			next++;
		/* One point stands for a whole gap. */
		if (next == series->count || series->list[next].x - known >= least)
			series->list[kept++] = series->list[i];
		i = next - 1;
	}
	series->count = kept;
}

void mt_series_add(struct mt_series *series, const struct mt_series *other)
{
	for (size_t i = 0; i < series->count && i < other->count; i++)
		series->list[i].y += other->list[i].y;
}

struct mt_series_sums mt_series_sum_up(const struct mt_series *series)
{
	struct mt_series_sums sums = {0};
	double area = 0, time = 0;

	for (size_t i = 0; i < series->count; i++) {
		const struct mt_point *point = &series->list[i];

		if (isnan(point->y))
			continue;
		sums.peak = fmax(sums.peak, point->y);
		sums.end = point->y;
		if (i && !isnan(point[-1].y)) {
			area += (point->x - point[-1].x) * (point->y + point[-1].y) / 2;
			time += point->x - point[-1].x;
		}
	}
	sums.mean = time > 0 ? area / time : sums.end;
	return sums;
}

/* ---- thinning ---- */

struct column {
	size_t number, first, least, highest, last;
};

static size_t put_column(const struct mt_series *series, const struct column *column, struct mt_point *out)
{
	size_t low = column->least < column->highest ? column->least : column->highest;
	size_t high = column->least < column->highest ? column->highest : column->least;
	const size_t all[] = {column->first, low, high, column->last};
	size_t count = 0;

	for (size_t i = 0; i < 4; i++)
		if (!i || all[i] != all[i - 1])
			out[count++] = series->list[all[i]];
	return count;
}

static size_t column_of(double x, double low, double high, size_t columns)
{
	double place = (x - low) / (high - low) * (double)columns;

	return place <= 0 ? 0 : place >= (double)columns ? columns : (size_t)place;
}

size_t mt_series_thin(const struct mt_series *series, double low, double high, size_t columns, struct mt_point *out)
{
	struct column column = {0};
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++) {
		size_t number = column_of(series->list[i].x, low, high, columns);

		if (!i || number != column.number) {
			if (i)
				count += put_column(series, &column, out + count);
			column = (struct column){number, i, i, i, i};
		}
		if (series->list[i].y < series->list[column.least].y)
			column.least = i;
		if (series->list[i].y > series->list[column.highest].y)
			column.highest = i;
		column.last = i;
	}
	return series->count ? count + put_column(series, &column, out + count) : 0;
}
