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
		cr_assert_lt(set.at[i].begin, set.at[i].end);
		if (i)
			cr_assert_lt(set.at[i - 1].end, set.at[i].begin);
	}
}

/* may_have_more: the set was full at times. */
static void expect_same(bool may_have_more)
{
	expect_sorted();
	for (uintptr_t at = 0; at < ADDRESSES; at++) {
		bool found = mt_page_ranges_overlap(&set, at, at + 1);

		cr_assert(found == has[at] || (found && may_have_more), "%zu", (size_t)at);
	}
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
		cr_assert_lt(set.count, MT_RANGES_MOST);
		if (i % 100 == 0)
			expect_same(false);
	}
}

Test(ranges, never_loses_an_address_where_it_is_full)
{
	uint32_t most = 0;

	for (unsigned int i = 0; i < STEPS; i++) {
		step(2);
		most = set.count > most ? set.count : most;
		if (i % 100 == 0)
			expect_same(true);
	}
	cr_expect_eq(most, MT_RANGES_MOST);
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
