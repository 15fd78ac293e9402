/* tests/ctl/test_diagnose_trend.c -- what grows, and what only looks as if. */
#include <criterion/criterion.h>

#include "diagnose_case.h"

static struct mt_trend trend_of(const struct series *of, double seconds, size_t looks, double least)
{
	struct mt_trend_point *points = calloc(looks, sizeof(*points));
	struct mt_trend trend;
	unsigned state = 7;

	for (size_t i = 0; i < looks; i++) {
		points[i].at_s = seconds * (double)i / (double)(looks - 1);
		points[i].value =
			case_value(of, points[i].at_s, seconds) + of->noise * case_noise(&state);
	}
	trend = mt_trend_find(
		&(struct mt_trend_series){.points = points, .count = looks, .least_min = least});
	free(points);
	return trend;
}

Test(trend, a_short_look_at_growth_is_no_look_at_a_flat_figure)
{
	const struct series leak = {SHAPE_RAMP, 300 * MB, 0.5 * MB, 0, 0},
			    noise = {SHAPE_FLAT, 300 * MB, 0, 0, 0.1 * MB},
			    little = {SHAPE_RAMP, 300 * MB, 0.01 * MB, 0, 0};

	cr_expect_eq(trend_of(&leak, 2, 20, MB).doubt, MT_TREND_ONSET);
	cr_expect_eq(trend_of(&leak, 4, 40, MB).shape, MT_TREND_GROWS);
	cr_expect_eq(trend_of(&noise, 2, 20, MB).shape, MT_TREND_FLAT);
	cr_expect_eq(trend_of(&little, 2, 20, MB).shape, MT_TREND_FLAT);
}

Test(trend, tells_growth_from_what_looks_like_it)
{
	static const struct {
		const char *name;
		struct series of;
		double seconds;
		size_t looks;
		enum mt_trend_shape shape;
	} rows[] = {
		{"flat", {SHAPE_FLAT, 100 * MB, 0, 0, 0}, 60, 120, MT_TREND_FLAT},
		{"noisy flat", {SHAPE_FLAT, 200 * MB, 0, 0, 10 * MB}, 60, 120, MT_TREND_FLAT},
		{"so noisy that a leak is lost in it",
		 {SHAPE_FLAT, 100 * MB, 0, 0, 90 * MB},
		 60,
		 120,
		 MT_TREND_UNDECIDED},
		{"noisy for 15 minutes",
		 {SHAPE_FLAT, 100 * MB, 0, 0, 20 * MB},
		 900,
		 500,
		 MT_TREND_FLAT},
		{"noisy flat, short", {SHAPE_FLAT, 100 * MB, 0, 0, 5 * MB}, 5, 50, MT_TREND_FLAT},
		{"a clean leak", {SHAPE_RAMP, 100 * MB, 5 * MB, 0, 0}, 60, 120, MT_TREND_GROWS},
		{"a clean leak, 5 s", {SHAPE_RAMP, 100 * MB, 5 * MB, 0, 0}, 5, 50, MT_TREND_GROWS},
		{"1 MB/s in a process of 4 GB",
		 {SHAPE_RAMP, 4096 * MB, 1 * MB, 0, 0},
		 60,
		 120,
		 MT_TREND_GROWS},
		{"the same under noise",
		 {SHAPE_RAMP, 4096 * MB, 1 * MB, 0, 10 * MB},
		 60,
		 120,
		 MT_TREND_GROWS},
		{"100 kB/s", {SHAPE_RAMP, 50 * MB, 0.1 * MB, 0, 0}, 60, 120, MT_TREND_GROWS},
		{"5 kB/s is none", {SHAPE_RAMP, 50 * MB, 0.005 * MB, 0, 0}, 60, 120, MT_TREND_FLAT},
		{"a leak under large noise",
		 {SHAPE_RAMP, 100 * MB, 5 * MB, 0, 80 * MB},
		 60,
		 120,
		 MT_TREND_GROWS},
		{"rounds of 10 s",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 10, 0},
		 60,
		 120,
		 MT_TREND_FLAT},
		{"rounds of 10 s, noisy",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 10, 8 * MB},
		 300,
		 500,
		 MT_TREND_FLAT},
		{"rounds of 7 s that end in a rise",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 7, 0},
		 60,
		 120,
		 MT_TREND_FLAT},
		{"rounds of 1.3 s",
		 {SHAPE_SAWTOOTH, 200 * MB, 50 * MB, 1.3, 0},
		 240,
		 400,
		 MT_TREND_FLAT},
		{"two rounds of 22 s",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 22, 0},
		 60,
		 120,
		 MT_TREND_UNDECIDED},
		{"ten of them",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 22, 0},
		 240,
		 400,
		 MT_TREND_FLAT},
		{"rounds that keep 10 MB each",
		 {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 5, 0},
		 60,
		 120,
		 MT_TREND_GROWS},
		{"the same, noisy",
		 {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 5, 4 * MB},
		 60,
		 120,
		 MT_TREND_GROWS},
		{"a warm-up",
		 {SHAPE_WARM_UP, 100 * MB, 300 * MB, 0, 0},
		 60,
		 120,
		 MT_TREND_FLATTENS},
		{"a warm-up, noisy",
		 {SHAPE_WARM_UP, 100 * MB, 300 * MB, 0, 3 * MB},
		 60,
		 120,
		 MT_TREND_FLATTENS},
		{"one step in the middle",
		 {SHAPE_STEP, 100 * MB, 100 * MB, 0, 0},
		 60,
		 120,
		 MT_TREND_UNDECIDED},
		{"one step in the middle, noisy",
		 {SHAPE_STEP, 100 * MB, 100 * MB, 0, 3 * MB},
		 60,
		 120,
		 MT_TREND_UNDECIDED},
		{"one step, and long flat since",
		 {SHAPE_EARLY_STEP, 100 * MB, 100 * MB, 0, 3 * MB},
		 60,
		 120,
		 MT_TREND_STEPS},
		{"stairs", {SHAPE_STAIRS, 100 * MB, 10 * MB, 5, 0}, 60, 120, MT_TREND_GROWS},
		{"falling", {SHAPE_RAMP, 900 * MB, -5 * MB, 0, 0}, 60, 120, MT_TREND_FALLS},
		{"spikes", {SHAPE_SPIKES, 100 * MB, 300 * MB, 10, 0}, 60, 120, MT_TREND_FLAT},
		{"too short", {SHAPE_RAMP, 100 * MB, 50 * MB, 0, 0}, 1, 10, MT_TREND_FEW},
		{"too few", {SHAPE_RAMP, 100 * MB, 50 * MB, 0, 0}, 60, 5, MT_TREND_FEW},
		{"a leak, a thousand looks",
		 {SHAPE_RAMP, 100 * MB, 5 * MB, 0, 1 * MB},
		 60,
		 1000,
		 MT_TREND_GROWS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mt_trend trend = trend_of(&rows[i].of, rows[i].seconds, rows[i].looks, MB);

		cr_expect_eq(
			trend.shape, rows[i].shape,
			"%s: %s (%s) instead of %s (slope %.3f MB/s, %.3f to %.3f, %zu rounds, %zu "
			"of %zu parts)",
			rows[i].name, mt_trend_word(trend.shape), mt_trend_doubt_word(trend.doubt),
			mt_trend_word(rows[i].shape), trend.slope / MB, trend.slope_low / MB,
			trend.slope_high / MB, trend.rounds, trend.grown_parts, trend.parts);
	}
}

Test(trend, gives_the_rate_and_an_interval_around_it)
{
	static const struct series leak = {SHAPE_RAMP, 4096 * MB, 1 * MB, 0, 10 * MB};
	static const struct series rounds = {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 5, 0};
	struct mt_trend trend = trend_of(&leak, 60, 120, MB);

	cr_expect(fabs(trend.slope - MB) < 0.15 * MB, "%.3f", trend.slope / MB);
	cr_expect(trend.slope_low < MB && trend.slope_high > MB, "%.3f to %.3f",
		  trend.slope_low / MB, trend.slope_high / MB);
	cr_expect(trend.slope_high - trend.slope_low < 0.5 * MB);
	cr_expect(trend.r_squared > 0.8);
	trend = trend_of(&rounds, 60, 120, MB);
	cr_expect(fabs(trend.slope - 2 * MB) < 0.4 * MB, "%.3f", trend.slope / MB);
	cr_expect(trend.rounds >= 10);
}

Test(trend, trusts_a_long_time_more_than_a_short_one_and_many_rounds_more_than_few)
{
	static const struct series leak = {SHAPE_RAMP, 100 * MB, 5 * MB, 0, 0};
	static const struct series stairs = {SHAPE_STAIRS, 100 * MB, 10 * MB, 20, 0};
	struct mt_trend longer = trend_of(&leak, 60, 120, MB), shorter = trend_of(&leak, 5, 50, MB);

	cr_expect(longer.confidence > 0.9);
	cr_expect(shorter.confidence < 0.6);
	cr_expect(trend_of(&stairs, 60, 120, MB).confidence < longer.confidence);
}

Test(trend, of_fewer_than_five_rounds_is_undecided_and_tells_how_long_five_take)
{
	static const struct series few = {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 14, 0};
	struct mt_trend trend = trend_of(&few, 60, 120, MB);

	cr_assert_eq(trend.shape, MT_TREND_UNDECIDED);
	cr_expect_eq(trend.doubt, MT_TREND_FEW_ROUNDS);
	cr_expect_eq(trend.rounds, 3);
	cr_expect_float_eq(trend.period_s, 14, 0.5);
	cr_expect(trend.needed_s > 5 * 14 && trend.needed_s < 8 * 14, "%.0f", trend.needed_s);
}

Test(trend, of_one_round_has_no_period)
{
	static const struct series one = {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 40, 0};
	struct mt_trend trend = trend_of(&one, 75, 150, MB);

	cr_expect_eq(trend.doubt, MT_TREND_FEW_ROUNDS);
	cr_expect_eq(trend.rounds, 1);
	cr_expect_eq(trend.period_s, 0, "%.1f", trend.period_s);
}

/* The program says when its rounds end: memory alone shows none. */
Test(trend, counts_the_rounds_that_the_program_marks)
{
	struct mt_trend_point points[200];
	double marks[] = {20, 47, 74, 101, 128, 155, 182};
	struct mt_trend_series series = {
		.points = points, .count = 200, .marks = marks, .marks_count = 2, .least_min = MB};
	struct mt_trend trend;

	for (size_t i = 0; i < 200; i++)
		points[i] = (struct mt_trend_point){(double)i, 300 * MB};
	series.count = 60;
	trend = mt_trend_find(&series);
	cr_expect_eq(trend.doubt, MT_TREND_FEW_ROUNDS);
	cr_expect(trend.rounds == 2 && trend.rounds_marked);
	series.count = 200;
	series.marks_count = 7;
	trend = mt_trend_find(&series);
	cr_expect_eq(trend.shape, MT_TREND_FLAT);
	cr_expect_eq(trend.rounds, 7);
	for (size_t i = 0; i < 200; i++) /* 1 % a round, in the round's own ups and downs */
		points[i].value += floor((double)i / 27) * 3 * MB + (double)(i % 5) * MB / 4;
	trend = mt_trend_find(&series);
	cr_expect_eq(trend.shape, MT_TREND_GROWS, "%s", mt_trend_word(trend.shape));
}

Test(trend, that_is_straight_and_up_in_each_part_is_sure)
{
	static const struct series leak = {SHAPE_RAMP, 300 * MB, 1 * MB, 0, 2 * MB};
	struct mt_trend trend = trend_of(&leak, 15, 120, MB);

	cr_assert_eq(trend.shape, MT_TREND_GROWS);
	cr_expect(trend.r_squared > 0.9 && trend.confidence > 0.7, "%.2f", trend.confidence);
}

Test(trend, of_nothing_is_unknown)
{
	cr_expect_eq(mt_trend_find(&(struct mt_trend_series){.least_min = MB}).shape, MT_TREND_FEW);
}

/* As when Python's collector has just freed what grew. */
Test(trend, does_not_say_that_grows_what_has_just_fallen)
{
	struct mt_trend_point points[120];
	struct mt_trend trend;

	for (size_t i = 0; i < 120; i++)
		points[i] =
			(struct mt_trend_point){(double)i, (i < 119 ? 100 + (double)i : 105) * MB};

	trend = mt_trend_find(&(struct mt_trend_series){.points = points, .count = 120});

	cr_expect_eq(trend.shape, MT_TREND_UNDECIDED);
}
