#include "ctl/metrics/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sys/saturating.h"

static double seconds_since(uint64_t time_ns, uint64_t origin_ns)
{
	return time_ns >= origin_ns ? (double)(time_ns - origin_ns) / 1e9
				    : -(double)(origin_ns - time_ns) / 1e9;
}

static void put_point(struct mt_series *series, double x, double y)
{
	series->list[series->count++] = (struct mt_point){x, y};
}

/* Adds to the last point if x is the same. Unknown values of one process are left out of the
 * sum. */
static void add_point(struct mt_series *series, double x, double y)
{
	struct mt_point *last = series->count ? &series->list[series->count - 1] : NULL;

	if (last && last->x == x)
		last->y = isnan(last->y) ? y : isnan(y) ? last->y : last->y + y;
	else
		put_point(series, x, y);
}

/* ---- cleanups as points ---- */

/* A point at the start or the end of a cleanup, between two samples. */
struct cleanup_point {
	uint64_t time_ns;
	enum mt_recording_side side;
	const struct mt_recording_mark *mark;
};

struct cleanup_points {
	struct cleanup_point *list; /* by rising time; owned */
	size_t count, next;
};

/* The pid of the only process; 0: there are several. */
static uint64_t only_process(const struct mt_recording *recording)
{
	uint64_t pid = recording->samples_count ? recording->samples[0].pid : 0;

	for (size_t i = 0; i < recording->samples_count; i++)
		if (recording->samples[i].pid != pid)
			return 0;
	return pid;
}

/* In a file, a cleanup may end after the next one begins, or after the recording: times are made to
 * rise. */
static void add_cleanup_points(struct cleanup_points *cleanup_points,
			       const struct mt_recording_mark *mark, uint64_t most_ns)
{
	struct cleanup_point *last =
		cleanup_points->count ? &cleanup_points->list[cleanup_points->count - 1] : NULL;
	uint64_t end_ns = mark->time_ns + mark->duration_ns;

	if (last && last->time_ns > mark->time_ns)
		last->time_ns = mark->time_ns;
	cleanup_points->list[cleanup_points->count++] =
		(struct cleanup_point){mark->time_ns, MT_RECORDING_BEFORE, mark};
	cleanup_points->list[cleanup_points->count++] = (struct cleanup_point){
		end_ns < most_ns ? end_ns : most_ns, MT_RECORDING_AFTER, mark};
}

/* A figure of a recording, or one of the parts that are computed of them. */
struct which {
	bool is_part;
	enum mt_recording_figure figure;
	enum mt_memory_part part;
};

/* Cleanups before the first sample (a ring has older records) are left out. */
static struct cleanup_points list_cleanup_points(const struct mt_recording *recording,
						 const struct which *which, uint64_t pid)
{
	struct cleanup_points cleanup_points = {
		mt_error_check_memory(
			calloc(2 * recording->marks_count + 1, sizeof(*cleanup_points.list))),
		0, 0};
	uint64_t begin_ns = mt_recording_begin_ns(recording),
		 end_ns = mt_recording_end_ns(recording);

	if (!pid || (!which->is_part && which->figure != MT_RECORDING_RSS &&
		     which->figure != MT_RECORDING_LIVE))
		return cleanup_points;
	for (size_t i = 0; i < recording->marks_count; i++) {
		const struct mt_recording_mark *mark = &recording->marks[i];

		if (mark->kind == MT_RECORDING_CLEANUP && mark->pid == pid &&
		    mark->time_ns >= begin_ns &&
		    mark->rss_bytes[MT_RECORDING_BEFORE] != MT_RECORDING_UNKNOWN &&
		    mark->rss_bytes[MT_RECORDING_AFTER] != MT_RECORDING_UNKNOWN)
			add_cleanup_points(&cleanup_points, mark, end_ns);
	}
	return cleanup_points;
}

static uint64_t or_else(uint64_t bytes, uint64_t other)
{
	return bytes == MT_RECORDING_UNKNOWN ? other : bytes;
}

/* `bytes` as in a sample. */
static uint64_t value_of(const struct which *which, const uint64_t *bytes)
{
	if (!which->is_part)
		return bytes[which->figure];
	if (bytes[MT_RECORDING_RSS] == MT_RECORDING_UNKNOWN ||
	    bytes[MT_RECORDING_LIVE] == MT_RECORDING_UNKNOWN)
		return MT_RECORDING_UNKNOWN;
	return mt_recording_parts(bytes).bytes[which->part];
}

/* Records have no free bytes: what a cleanup returned was free before it. Else those of the sample,
 * as far as so much is resident and not live. */
static uint64_t dirty_at(const struct cleanup_point *cleanup_point, uint64_t near_bytes,
			 uint64_t most_bytes)
{
	const uint64_t *rss = cleanup_point->mark->rss_bytes;
	uint64_t returned = cleanup_point->side == MT_RECORDING_BEFORE
				    ? mt_sat_sub(rss[MT_RECORDING_BEFORE], rss[MT_RECORDING_AFTER])
				    : 0;

	return mt_min_u64(mt_max_u64(or_else(near_bytes, 0), returned), most_bytes);
}

/* Unknown values of the record are taken from the sample on the same side of the cleanup. */
static uint64_t bytes_at(const struct cleanup_point *cleanup_point, const struct which *which,
			 const struct mt_recording_sample *near)
{
	const struct mt_recording_mark *mark = cleanup_point->mark;
	uint64_t rss = mark->rss_bytes[cleanup_point->side],
		 near_rss = near->bytes[MT_RECORDING_RSS];
	uint64_t bytes[MT_RECORDING_FIGURES_COUNT];
	uint64_t files = mt_sat_sub(near_rss, or_else(near->bytes[MT_RECORDING_ANON], near_rss));
	uint64_t *live = &bytes[MT_RECORDING_LIVE];

	memcpy(bytes, near->bytes, sizeof(bytes));
	bytes[MT_RECORDING_RSS] = rss;
	bytes[MT_RECORDING_ANON] =
		or_else(mark->anon_bytes[cleanup_point->side], mt_sat_sub(rss, files));
	/* if the sample knows nothing of the heap there is a gap */
	if (*live != MT_RECORDING_UNKNOWN) {
		*live = or_else(mark->live_bytes[cleanup_point->side], *live);
		bytes[MT_RECORDING_DIRTY] = dirty_at(cleanup_point, bytes[MT_RECORDING_DIRTY],
						     mt_sat_sub(bytes[MT_RECORDING_ANON], *live));
	}
	return value_of(which, bytes);
}

static double known(uint64_t bytes)
{
	return bytes == MT_RECORDING_UNKNOWN ? NAN : (double)bytes;
}

/* The state of a series that is being made. */
struct line {
	struct mt_series series;
	struct cleanup_points cleanup_points;
	struct which which;
	uint64_t origin_ns;
	const struct mt_recording_sample *last; /* NULL: none so far */
};

/* Adds the points of cleanups before this sample; NULL: all remaining ones. */
static void add_cleanups_before(struct line *line, const struct mt_recording_sample *sample)
{
	struct cleanup_points *cleanup_points = &line->cleanup_points;

	for (; cleanup_points->next < cleanup_points->count; cleanup_points->next++) {
		const struct cleanup_point *cleanup_point =
			&cleanup_points->list[cleanup_points->next];
		const struct mt_recording_sample *near =
			cleanup_point->side == MT_RECORDING_BEFORE ? line->last : sample;

		if (sample && cleanup_point->time_ns >= sample->time_ns)
			return;
		near = near ? near : line->last ? line->last : sample;
		if (near)
			put_point(&line->series,
				  seconds_since(cleanup_point->time_ns, line->origin_ns),
				  known(bytes_at(cleanup_point, &line->which, near)));
	}
}

static struct mt_series make_series(const struct mt_recording *recording, const struct which *which,
				    uint64_t pid, uint64_t origin_ns)
{
	struct line line = {.cleanup_points = list_cleanup_points(
				    recording, which, pid ? pid : only_process(recording)),
			    .which = *which,
			    .origin_ns = origin_ns};
	size_t room = recording->samples_count + line.cleanup_points.count + 1;

	line.series.list = mt_error_check_memory(calloc(room, sizeof(*line.series.list)));
	for (size_t i = 0; i < recording->samples_count; i++) {
		const struct mt_recording_sample *sample = &recording->samples[i];

		if (pid && sample->pid != pid)
			continue;
		add_cleanups_before(&line, sample);
		/* with points of cleanups nothing is added up */
		(line.cleanup_points.count ? put_point : add_point)(
			&line.series, seconds_since(sample->time_ns, origin_ns),
			known(value_of(which, sample->bytes)));
		line.last = sample;
	}
	add_cleanups_before(&line, NULL);
	free(line.cleanup_points.list);
	return line.series;
}

struct mt_series mt_series_of(const struct mt_recording *recording, enum mt_recording_figure figure,
			      uint64_t pid, uint64_t origin_ns)
{
	const struct which which = {.figure = figure};

	return make_series(recording, &which, pid, origin_ns);
}

struct mt_series mt_series_of_part(const struct mt_recording *recording, enum mt_memory_part part,
				   uint64_t pid, uint64_t origin_ns)
{
	const struct which which = {.is_part = true, .part = part};

	return make_series(recording, &which, pid, origin_ns);
}

struct mt_series mt_series_of_device(const struct mt_recording *recording,
				     const struct mt_series_device *which, uint64_t origin_ns)
{
	struct mt_series series = {
		mt_error_check_memory(calloc(recording->devices_count + 1, sizeof(*series.list))),
		0};

	for (size_t i = 0; i < recording->devices_count; i++) {
		const struct mt_recording_device *device = &recording->devices[i];

		if (device->ordinal == which->ordinal && (!which->pid || device->pid == which->pid))
			add_point(&series, seconds_since(device->time_ns, origin_ns),
				  (double)(which->reserved ? device->reserved_bytes
							   : device->allocated_bytes));
	}
	return series;
}

struct mt_series mt_series_copy(const struct mt_series *series)
{
	struct mt_series copy = {
		mt_error_check_memory(calloc(series->count + 1, sizeof(*copy.list))),
		series->count};

	memcpy(copy.list, series->list, series->count * sizeof(*copy.list));
	return copy;
}

int mt_series_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
		/* one point is enough for a gap */
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

static size_t put_column(const struct mt_series *series, const struct column *column,
			 struct mt_point *out)
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

size_t mt_series_thin(const struct mt_series *series, double low, double high, size_t columns,
		      struct mt_point *out)
{
	struct column column = {0};
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++) {
		double column_at = (series->list[i].x - low) / (high - low) * (double)columns;
		size_t number = (size_t)fmin(fmax(column_at, 0), (double)columns);

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
