/* tests/ctl/test_scale.c -- ctl/metrics/scale: round values on the axes of pictures. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/metrics/series.h"

#define MB 1048576.0
#define GB (1024 * MB)

static struct mt_ticks ticks;

/* "0|500 MB|1000 MB" */
static const char *labels(void)
{
	static char text[MT_TICKS_MAX * sizeof(ticks.list[0].label)];

	*text = '\0';
	for (size_t i = 0; i < ticks.count; i++)
		sprintf(text + strlen(text), "%s%s", i ? "|" : "", ticks.list[i].label);
	return text;
}

Test(scale, places_values_between_the_ends)
{
	const struct mt_scale scale = {0, 100, 400, 50};

	cr_expect_float_eq(mt_scale_position(&scale, 0), 400, 1e-9);
	cr_expect_float_eq(mt_scale_position(&scale, 100), 50, 1e-9);
	cr_expect_float_eq(mt_scale_position(&scale, 50), 225, 1e-9);
}

Test(scale, bytes_are_round_in_one_unit_and_end_above_the_highest)
{
	mt_ticks_bytes(208.6 * MB, 6, &ticks);
	cr_expect_str_eq(labels(), "0|50 MB|100 MB|150 MB|200 MB|250 MB");
	mt_ticks_bytes(1500 * MB, 4, &ticks);
	cr_expect_str_eq(labels(), "0|500 MB|1000 MB|1500 MB");
	mt_ticks_bytes(2.9 * GB, 6, &ticks);
	cr_expect_str_eq(labels(), "0|0.5 GB|1 GB|1.5 GB|2 GB|2.5 GB|3 GB");
	mt_ticks_bytes(79 * GB, 4, &ticks);
	cr_expect_str_eq(labels(), "0|20 GB|40 GB|60 GB|80 GB");
	mt_ticks_bytes(5000 * GB, 5, &ticks);
	cr_expect_str_eq(labels(), "0|1 TB|2 TB|3 TB|4 TB|5 TB");
}

Test(scale, bytes_of_nothing_and_of_far_too_much_still_make_an_axis)
{
	mt_ticks_bytes(0, 5, &ticks);
	cr_expect_str_eq(labels(), "0|0.2 MB|0.4 MB|0.6 MB|0.8 MB|1 MB");
	for (double high = 1; high < 1e24; high *= 1.7) {
		mt_ticks_bytes(high, 12, &ticks);
		cr_assert(ticks.count >= 2 && ticks.count <= 14, "%g: %zu", high, ticks.count);
		cr_assert(ticks.list[ticks.count - 1].at >= high * (1 - 1e-6));
		cr_assert_eq(ticks.list[0].at, 0);
	}
}

Test(scale, elapsed_time_is_in_steps_that_people_count_in)
{
	mt_ticks_elapsed(0, 13.6, 7, &ticks);
	cr_expect_str_eq(labels(), "0|2 s|4 s|6 s|8 s|10 s|12 s");
	mt_ticks_elapsed(0, 1, 5, &ticks);
	cr_expect_str_eq(labels(), "0|0.2 s|0.4 s|0.6 s|0.8 s|1 s");
	mt_ticks_elapsed(0, 5400, 9, &ticks);
	cr_expect_str_eq(labels(),
			 "0|10 min|20 min|30 min|40 min|50 min|60 min|70 min|80 min|90 min");
	mt_ticks_elapsed(0, 6 * 3600, 12, &ticks);
	cr_expect_str_eq(labels(), "0|0.5 h|1 h|1.5 h|2 h|2.5 h|3 h|3.5 h|4 h|4.5 h|5 h|5.5 h|6 h");
	mt_ticks_elapsed(0, 7 * 86400, 8, &ticks);
	cr_expect_str_eq(labels(), "0|1 d|2 d|3 d|4 d|5 d|6 d|7 d");
}

Test(scale, elapsed_time_may_begin_late)
{
	mt_ticks_elapsed(3001, 5400, 8, &ticks);
	cr_expect_str_eq(labels(), "55 min|60 min|65 min|70 min|75 min|80 min|85 min|90 min");
}

Test(scale, an_age_of_the_world_has_no_more_ticks_than_there_is_room)
{
	mt_ticks_elapsed(0, 4.6e9, 12, &ticks);
	cr_expect(ticks.count >= 2 && ticks.count <= 14, "%zu", ticks.count);
	mt_ticks_clock(0, 0, 4.6e9, &ticks);
	cr_expect(ticks.count >= 2 && ticks.count <= MT_TICKS_MAX, "%zu", ticks.count);
}

Test(scale, times_of_day_are_round_where_we_are_and_midnight_is_a_date)
{
	setenv("TZ", "XXX-5:30", 1); /* east of Greenwich, and half an hour off */
	tzset();
	mt_ticks_clock(1795347000, 0, 900, &ticks);
	cr_expect_str_eq(labels(), "17:00|17:02|17:04|17:06|17:08|17:10|17:12|17:14");
	mt_ticks_clock(1795347000, 0, 60, &ticks);
	cr_expect_str_eq(labels(),
			 "17:00:00|17:00:10|17:00:20|17:00:30|17:00:40|17:00:50|17:01:00");
	mt_ticks_clock(1795347000, 0, 12 * 3600, &ticks);
	cr_expect_str_eq(labels(), "18:00|20:00|22:00|23 Nov|02:00|04:00");
}
