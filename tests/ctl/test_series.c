/* tests/ctl/test_series.c -- ctl/metrics/series: figures over time, summed up and thinned without
 * losing a peak. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "ctl/metrics/series.h"

#define SECOND UINT64_C(1000000000)

static struct mt_recording recording;

static void add(uint64_t seconds, uint64_t pid, uint64_t rss, uint64_t live)
{
	struct mt_recording_sample sample = {.time_ns = seconds * SECOND, .pid = pid};

	for (size_t i = 0; i < MT_RECORDING_FIGURES_COUNT; i++)
		sample.bytes[i] = MT_RECORDING_UNKNOWN;
	sample.bytes[MT_RECORDING_RSS] = rss;
	sample.bytes[MT_RECORDING_LIVE] = live;
	if (live != MT_RECORDING_UNKNOWN)
		sample.bytes[MT_RECORDING_DIRTY] = 0;
	cr_assert(mt_recording_add_sample(&recording, &sample));
}

Test(series, is_of_one_process_or_of_all_added_up)
{
	struct mt_series one, all, live;

	add(10, 1, 100, 40);
	add(10, 2, 50, MT_RECORDING_UNKNOWN);
	add(11, 1, 110, MT_RECORDING_UNKNOWN);
	add(12, 2, 60, 5);
	one = mt_series_of(&recording, MT_RECORDING_RSS, 1, 10 * SECOND);
	all = mt_series_of(&recording, MT_RECORDING_RSS, 0, 10 * SECOND);
	live = mt_series_of(&recording, MT_RECORDING_LIVE, 0, 10 * SECOND);

	cr_assert_eq(one.count, 2);
	cr_expect(one.list[1].x == 1 && one.list[1].y == 110);
	cr_assert_eq(all.count, 3);
	cr_expect(all.list[0].y == 150 && all.list[1].y == 110 && all.list[2].y == 60);
	cr_expect(live.list[0].y == 40 && isnan(live.list[1].y) && live.list[2].y == 5);
	mt_series_free(&one);
	mt_series_free(&all);
	mt_series_free(&live);
}

static void clean(uint64_t seconds, uint64_t took_s, uint64_t before, uint64_t after)
{
	struct mt_recording_mark mark = {
		.kind = MT_RECORDING_CLEANUP,
		.time_ns = seconds * SECOND,
		.duration_ns = took_s * SECOND,
		.pid = 1,
		.rss_bytes = {before, after},
		.live_bytes = {30, MT_RECORDING_UNKNOWN},
		.anon_bytes = {MT_RECORDING_UNKNOWN, MT_RECORDING_UNKNOWN}};

	cr_assert(mt_recording_add_mark(&recording, &mark));
}

static void expect(struct mt_series series, const struct mt_point *points, size_t count)
{
	cr_expect_eq(series.count, count, "%zu", series.count);
	for (size_t i = 0; i < count && i < series.count; i++)
		cr_expect(series.list[i].x == points[i].x &&
				  (series.list[i].y == points[i].y ||
				   (isnan(series.list[i].y) && isnan(points[i].y))),
			  "%zu: %g %g", i, series.list[i].x, series.list[i].y);
	mt_series_free(&series);
}

static void expect_points(enum mt_recording_figure figure, uint64_t pid,
			  const struct mt_point *points, size_t count)
{
	expect(mt_series_of(&recording, figure, pid, 10 * SECOND), points, count);
}

static void expect_part(enum mt_memory_part part, const struct mt_point *points, size_t count)
{
	expect(mt_series_of_part(&recording, part, 0, 10 * SECOND), points, count);
}

/* Between two samples a second apart a peak of gigabytes may come and go. */
Test(series, has_what_cleanups_found_and_left_between_the_samples)
{
	static const struct mt_point rss[] = {{0, 100}, {2, 400}, {3, 50},
					      {10, 60}, {12, 90}, {12, 70}},
				     live[] = {{0, 40},  {2, 30},  {3, 20},
					       {10, 20}, {12, 30}, {12, 20}};

	clean(9, 0, 999, 1); /* before the first sample */
	add(10, 1, 100, 40);
	clean(12, 1, 400, 50);
	clean(13, 0, MT_RECORDING_UNKNOWN, 1); /* by a shim that did not know */
	add(20, 1, 60, 20);
	clean(22, 100, 90, 70); /* longer than what was recorded: not drawn beyond it */

	expect_points(MT_RECORDING_RSS, 0, rss, 6);
	expect_points(MT_RECORDING_RSS, 1, rss, 6);
	expect_points(MT_RECORDING_LIVE, 0, live, 6);
}

Test(series, reusable_memory_at_a_cleanup_is_never_more_than_what_is_resident_and_not_live)
{
	clean(12, 1, 400, 50);
	add(10, 1, 100, 40);
	add(20, 1, 60, 20);
	recording.samples[0].bytes[MT_RECORDING_DIRTY] = 500;
	recording.samples[1].bytes[MT_RECORDING_DIRTY] = 7;

	expect_part(MT_PART_REUSABLE, (const struct mt_point[]){{0, 60}, {2, 370}, {3, 7}, {10, 7}},
		    4);
}

/* One is drawn upon the other: with gaps in different places the picture's path had no number in
 * it. */
Test(series, where_a_sample_knows_nothing_of_the_heap_no_part_is_known_at_a_cleanup_beside_it)
{
	static const struct mt_point live[] = {{0, 40}, {2, 30}, {3, NAN}, {10, NAN}},
				     reusable[] = {{0, 0}, {2, 350}, {3, NAN}, {10, NAN}},
				     other[] = {{0, 60}, {2, 20}, {3, NAN}, {10, NAN}};

	add(10, 1, 100, 40);
	clean(12, 1, 400, 50);
	add(20, 1, 60, MT_RECORDING_UNKNOWN);

	expect_points(MT_RECORDING_LIVE, 0, live, 4);
	expect_part(MT_PART_REUSABLE, reusable, 4);
	expect_part(MT_PART_OTHER, other, 4);
}

/* What the others held at that moment nobody has looked at. */
Test(series, of_several_processes_added_up_has_only_samples)
{
	add(10, 1, 100, 40);
	add(10, 2, 10, 1);
	clean(12, 1, 400, 50);
	add(20, 1, 60, 20);
	add(20, 2, 10, 1);

	expect_points(MT_RECORDING_RSS, 0, (const struct mt_point[]){{0, 110}, {10, 70}}, 2);
	expect_points(MT_RECORDING_RSS, 1,
		      (const struct mt_point[]){{0, 100}, {2, 400}, {3, 50}, {10, 60}}, 4);
	expect_points(MT_RECORDING_RSS, 2, (const struct mt_point[]){{0, 10}, {10, 10}}, 2);
}

/* A file may say anything; the line goes one way all the same. */
Test(series, cleanups_that_overlap_leave_the_line_in_order)
{
	struct mt_series series;

	add(10, 1, 100, 40);
	clean(12, 50, 400, 50);
	clean(13, 0, 60, 55);
	clean(20, 1, 60, 55);
	add(20, 1, 60, 20);
	add(30, 1, 60, 20);
	series = mt_series_of(&recording, MT_RECORDING_RSS, 0, 10 * SECOND);

	cr_assert_eq(series.count, 9);
	for (size_t i = 1; i < series.count; i++)
		cr_expect_geq(series.list[i].x, series.list[i - 1].x);
	mt_series_free(&series);
}

Test(series, sums_up_over_time_and_over_gaps)
{
	struct mt_point points[] = {{0, 10}, {1, 30}, {3, 30}, {4, NAN}, {5, 0}, {9, 20}};
	const struct mt_series series = {points, 6}, gap = {points + 3, 1};
	struct mt_series_sums sums = mt_series_sum_up(&series), none = mt_series_sum_up(&gap);

	cr_expect_float_eq(sums.peak, 30, 1e-9);
	cr_expect_float_eq(sums.end, 20, 1e-9);
	cr_expect_float_eq(sums.mean, (20 * 1 + 30 * 2 + 10 * 4) / 7.0, 1e-9);
	cr_expect(none.peak == 0 && none.mean == 0 && none.end == 0);
}

Test(series, a_gap_that_nobody_would_see_is_closed)
{
	struct mt_point points[] = {{0, 1},   {1, NAN},  {2, NAN}, {3, 1},
				    {4, NAN}, {20, NAN}, {30, 1},  {31, NAN}};
	struct mt_series series = {points, 8};

	mt_series_close_gaps(&series, 5);

	cr_assert_eq(series.count, 5);
	cr_expect(series.list[1].x == 3 && isnan(series.list[2].y) && series.list[3].x == 30 &&
		  isnan(series.list[4].y));
}

Test(series, thinned_it_keeps_the_peaks_the_ends_and_the_order)
{
	enum { COUNT = 1000000, COLUMNS = 500 };
	struct mt_point *points = calloc(COUNT, sizeof(*points)),
			*out = calloc(4 * (COLUMNS + 1), sizeof(*out));
	const struct mt_series series = {points, COUNT};
	bool peak = false, dip = false;
	size_t count;

	for (size_t i = 0; i < COUNT; i++)
		points[i] = (struct mt_point){(double)i, 100 + (double)(i % 7)};
	points[123456].y = 5000; /* one sample of a million */
	points[777777].y = 1;
	count = mt_series_thin(&series, 0, COUNT - 1, COLUMNS, out);

	cr_assert(count > COLUMNS && count <= 4 * (COLUMNS + 1), "%zu", count);
	cr_expect(out[0].x == 0 && out[count - 1].x == COUNT - 1);
	for (size_t i = 0; i < count; i++) {
		peak |= out[i].x == 123456 && out[i].y == 5000;
		dip |= out[i].x == 777777 && out[i].y == 1;
		cr_assert(!i || out[i].x > out[i - 1].x);
	}
	cr_expect(peak && dip);
	free(points);
	free(out);
}

Test(series, few_points_are_kept_as_they_are)
{
	struct mt_point points[] = {{0, 3}, {10, 1}, {20, 2}}, out[4 * 101];
	const struct mt_series series = {points, 3}, none = {points, 0};

	cr_assert_eq(mt_series_thin(&series, 0, 20, 100, out), 3);
	cr_expect(out[1].x == 10 && out[1].y == 1 && out[2].x == 20);
	cr_expect_eq(mt_series_thin(&none, 0, 20, 100, out), 0);
}

Test(series, values_outside_of_the_axis_end_at_its_ends)
{
	struct mt_point points[] = {{-5, 3}, {10, 1}, {900, 2}}, out[4 * 3];
	const struct mt_series series = {points, 3};

	cr_expect_eq(mt_series_thin(&series, 0, 20, 2, out), 3);
}
