/* test_ranges.c -- the set of address ranges, beside a table of all its addresses. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "heap/page_flags.h"

#define ADDRESSES 2000u
#define STEPS     200000u

static struct mt_ranges set;
static bool has[ADDRESSES];

static void expect_sorted(void)
{
	for (uint32_t i = 0; i < set.count; i++) {
		cr_assert_lt(mt_page_ranges_at(&set)[i].begin, mt_page_ranges_at(&set)[i].end);
		if (i)
			cr_assert_lt(mt_page_ranges_at(&set)[i - 1].end,
				     mt_page_ranges_at(&set)[i].begin);
	}
}

static void expect_same(void)
{
	expect_sorted();
	for (uintptr_t at = 0; at < ADDRESSES; at++)
		cr_assert_eq(mt_page_ranges_overlap(&set, at, at + 1), has[at], "%zu", (size_t)at);
}

static void step(unsigned int longest)
{
	uintptr_t begin = (uintptr_t)random() % (ADDRESSES - longest);
	uintptr_t end = begin + 1 + (uintptr_t)random() % longest;
	bool adds = random() % 2;

	if (adds)
		mt_page_ranges_add(&set, begin, end);
	else
		mt_page_ranges_remove(&set, begin, end);
	memset(has + begin, adds, end - begin);
}

Test(ranges, has_what_was_added_and_not_removed)
{
	for (unsigned int i = 0; i < STEPS; i++) {
		step(100);
		if (i % 100 == 0)
			expect_same();
	}
}

Test(ranges, has_no_more_than_that_when_it_is_many_ranges)
{
	uint32_t most = 0;

	for (unsigned int i = 0; i < STEPS; i++) {
		step(2);
		most = set.count > most ? set.count : most;
		if (i % 100 == 0)
			expect_same();
	}
	cr_expect_gt(most, MT_RANGES_FIRST);
}

Test(ranges, joins_neighbours_and_loses_no_address_where_it_is_full)
{
	memset(&set, 0, sizeof(set));
	for (uintptr_t i = 0; i <= MT_RANGES_MOST; i++)
		mt_page_ranges_add(&set, 10 * i, 10 * i + 5);
	cr_expect_eq(set.count, MT_RANGES_MOST);
	mt_page_ranges_remove(&set, 1, 2);
	expect_sorted();
	for (uintptr_t i = 0; i <= MT_RANGES_MOST; i++)
		for (uintptr_t at = 10 * i; at < 10 * i + 5; at++)
			cr_assert(mt_page_ranges_overlap(&set, at, at + 1));
}

Test(ranges, clips_a_range_to_its_ends_in_the_set)
{
	uintptr_t begin = 150, end = 480;

	memset(&set, 0, sizeof(set));
	mt_page_ranges_add(&set, 200, 300);
	mt_page_ranges_add(&set, 400, 450);
	cr_expect(mt_page_ranges_clip(&set, &begin, &end));
	cr_expect_eq(begin, 200);
	cr_expect_eq(end, 450);
	begin = 250, end = 420;
	cr_expect(mt_page_ranges_clip(&set, &begin, &end));
	cr_expect_eq(begin, 250);
	cr_expect_eq(end, 420);
	begin = 300, end = 400;
	cr_expect_not(mt_page_ranges_clip(&set, &begin, &end));
	cr_expect_eq(begin, 300);
}
