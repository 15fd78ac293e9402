/* test_headroom.c -- pressure/reclaim: how much free memory the heap may keep beside a limit of
 * 1000 MB. */
#include <criterion/criterion.h>

#include "sys/os.h"
#include "pressure/pressure_internal.h"

#define MB ((int64_t)MT_MIB)

static struct mt_headroom headroom;
static struct mt_headroom_sample now;
static struct mt_ceiling ceiling;

static void begin(void)
{
	headroom = (struct mt_headroom){0};
	now = (struct mt_headroom_sample){.now_ns = MT_NS_PER_S,
					  .limit_bytes = 1000 * MT_MIB,
					  .sample_growth_bytes = 50 * MT_MIB};
}

TestSuite(headroom, .init = begin);

/* used and anonymous memory of the process, and the heap's active or live and free bytes, after so
 * many ms. */
static void look(uint64_t ms, int64_t used_mb, int64_t anon_mb, bool exact, int64_t held_mb,
		 int64_t free_mb)
{
	now.now_ns += ms * MT_NS_PER_MS;
	now.used_bytes = (uint64_t)(used_mb * MB);
	now.anon_bytes = (uint64_t)(anon_mb * MB);
	now.heap = (struct mt_heap_size){
		.exact = exact, .held_bytes = held_mb * MB, .free_bytes = free_mb * MB};
	mt_reclaim_headroom_update(&headroom, &now, &ceiling);
	now.purged = false;
}

static bool passed(bool exact, int64_t held_mb, int64_t free_mb, int64_t fresh_mb)
{
	const struct mt_heap_size heap = {.exact = exact,
					  .held_bytes = held_mb * MB,
					  .free_bytes = free_mb * MB,
					  .fresh_bytes = fresh_mb * MB};
	struct mt_reclaimable room = mt_reclaim_ceiling_reclaimable(&ceiling, &heap);

	return mt_reclaim_ceiling_is_passed(&ceiling, &room, now.now_ns);
}

/* 1000 MB less the margin of 31: 969. */
Test(headroom, lets_free_memory_stay_as_long_as_all_fits)
{
	look(0, 600, 590, true, 390, 100); /* 110 outside */

	cr_expect_not(passed(true, 390, 100, 0));
	cr_expect_not(passed(true, 490, 368, 0));
	cr_expect(passed(true, 490, 370, 0));
	cr_expect_not(passed(true, 858, 0, 0), "nothing is free");
}

Test(headroom, is_not_used_up_by_memory_that_is_turned_over)
{
	look(0, 950, 940, true, 800, 140);

	for (int64_t taken = 0; taken <= 140; taken++)
		cr_expect_not(passed(true, 800 + taken, 140 - taken, 0), "%d MB taken", (int)taken);
}

Test(headroom, counts_what_is_allocated_and_not_touched)
{
	look(0, 600, 590, true, 90, 500);

	cr_expect(passed(true, 490, 500, 0), "400 MB are wanted beside 500 that are free");
	look(10, 110, 100, true, 490, 0);
	cr_expect_not(passed(true, 490, 300, 0));
	cr_expect(passed(true, 490, 480, 0), "the 400 are still to be touched");
}

Test(headroom, forgets_after_two_seconds_what_is_never_touched)
{
	look(0, 600, 590, true, 490, 100);
	look(10, 600, 590, true, 890, 100); /* 400 MB of it */
	cr_expect(passed(true, 890, 100, 0));
	look(1000, 600, 590, true, 890, 100);
	cr_expect(passed(true, 890, 100, 0));
	look(1100, 600, 590, true, 890, 100);
	cr_expect_not(passed(true, 890, 100, 0));
}

Test(headroom, counts_what_others_use)
{
	look(0, 600, 590, true, 390, 100);
	look(10, 900, 590, true, 390, 150); /* another process */

	cr_expect_not(passed(true, 390, 150, 0));
	look(10, 990, 590, true, 390, 150);
	cr_expect(passed(true, 390, 150, 0));
}

Test(headroom, knows_free_memory_by_what_live_bytes_have_left_behind)
{
	look(0, 510, 500, false, 490, 0);
	look(10, 510, 500, false, 10, 0); /* 480 MB were freed, and are still used */

	cr_expect_not(passed(false, 450, 0, 440), "all fits");
	cr_expect(passed(false, 490, 0, 480));
}

Test(headroom, knows_it_too_where_no_look_has_come_in_between)
{
	look(0, 510, 500, false, 490, 0);

	cr_expect(passed(false, 490, 0, 480),
		  "10 MB were live before these 480, and 510 were used");
}

Test(headroom, pauses_after_a_purge_that_returned_nothing_but_not_for_a_leap)
{
	look(0, 910, 900, false, 890, 0);
	look(10, 910, 900, false, 800, 0); /* 90 MB seem to be free */
	cr_expect(passed(false, 890, 0, 0));
	now.purged = true;
	look(10, 910, 900, false, 890, 0);
	look(10, 910, 900, false, 800, 0);
	cr_expect_not(passed(false, 890, 0, 0), "less than an eighth of the limit");
	cr_expect(passed(false, 890, 0, 140), "more");
}

/* 90 MB seem free before the purge. */
static void purge_to(int64_t used_mb)
{
	look(0, 910, 900, false, 890, 0);
	look(10, 910, 900, false, 800, 0);
	now.purged = true;
	look(10, used_mb, used_mb - 10, false, 800, 0);
}

Test(headroom, does_not_pause_after_a_purge_of_use)
{
	purge_to(820);

	cr_expect_eq(ceiling.pause_until_ns, now.now_ns);
}

Test(headroom, pauses_after_a_purge_that_returned_less_than_half_of_what_seemed_free)
{
	purge_to(870);

	cr_expect_gt(ceiling.pause_until_ns, now.now_ns);
}

Test(headroom, asks_for_a_look_once_the_process_has_grown)
{
	look(0, 600, 590, true, 390, 100);

	cr_expect_eq(ceiling.sample_at_bytes, 650 * MB);
}
