/* tests/unit/test_series.c -- ctl/plot/series: figures over time, summed up and thinned without losing a peak. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "ctl/plot/series.h"

#define SECOND UINT64_C(1000000000)

static struct mt_recording recording;

static void add(uint64_t seconds, uint64_t pid, uint64_t rss, uint64_t live)
{
	struct mt_recording_sample sample = {.time_ns = seconds * SECOND, .pid = pid};

	for (size_t i = 0; i < MT_RECORDING_FIGURES_COUNT; i++)
		sample.bytes[i] = MT_RECORDING_UNKNOWN;
	sample.bytes[MT_RECORDING_RSS] = rss;
	sample.bytes[MT_RECORDING_LIVE] = live;
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
	struct mt_point points[] = {{0, 1}, {1, NAN}, {2, NAN}, {3, 1}, {4, NAN}, {20, NAN}, {30, 1}, {31, NAN}};
	struct mt_series series = {points, 8};

	mt_series_close_gaps(&series, 5);

	cr_assert_eq(series.count, 5);
	cr_expect(series.list[1].x == 3 && isnan(series.list[2].y) && series.list[3].x == 30 && isnan(series.list[4].y));
}

Test(series, thinned_it_keeps_the_peaks_the_ends_and_the_order)
{
	enum { COUNT = 1000000, COLUMNS = 500 };
	struct mt_point *points = calloc(COUNT, sizeof(*points)), *out = calloc(4 * (COLUMNS + 1), sizeof(*out));
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
