/* test_pending.c -- reaper/pending: what was taken and is not touched yet, in looks of what is untouched and what was told. */
#include <criterion/criterion.h>

#include "base/os.h"
#include "reaper/pending.h"

#define MB MT_MIB
#define MS MT_NS_PER_MS

static struct mt_pending pending;
static uint64_t now_ns;

/* 10 ms later so many MB of the heap are not resident, and threads have told of so many more: what is pending, in MB. */
static uint64_t look(int64_t untouched_mb, uint64_t taken_mb)
{
	const struct mt_untouched untouched = {.known = true, .space_bytes = untouched_mb * (int64_t)MB, .exact = true,
					       .heap_bytes = untouched_mb * (int64_t)MB};

	now_ns += 10 * MS;
	mt_pending_look(&pending, &untouched, taken_mb * MB, now_ns);
	return pending.bytes / MB;
}

static void begin(void)
{
	mt_pending_fork_child(&pending);
	now_ns = MT_NS_PER_S;
	cr_expect_eq(look(1000, 500), 0, "at the first look there is nothing to compare with");
}

TestSuite(pending, .init = begin);

Test(pending, is_what_was_taken_and_is_not_resident)
{
	cr_expect_eq(look(1150, 150), 150);
	cr_expect_eq(look(1180, 30), 180);
}

Test(pending, becomes_less_as_it_is_touched)
{
	cr_expect_eq(look(1150, 150), 150);
	cr_expect_eq(look(1100, 0), 100);
	cr_expect_eq(look(900, 0), 0);
	cr_expect_eq(look(950, 50), 50, "nothing is owed for what was resident before");
}

Test(pending, is_not_what_somebody_else_has_mapped)
{
	cr_expect_eq(look(1400, 0), 0);
	now_ns += 100 * MS;
	cr_expect_eq(look(1400, 0), 0);
	cr_expect_eq(look(1400, 60), 0, "long after, nobody tells of that file");
}

Test(pending, is_known_though_the_thread_tells_of_its_block_a_look_later)
{
	cr_expect_eq(look(1150, 12), 12);
	cr_expect_eq(look(1150, 150), 150);
	cr_expect_eq(look(1150, 0), 150);
}

Test(pending, is_known_though_many_looks_come_before_the_thread_tells)
{
	for (uint64_t i = 0; i < 9; i++)
		cr_expect_eq(look(1150, 1), i + 1);
	cr_expect_eq(look(1150, 141), 150);
}

Test(pending, is_less_by_what_is_touched_before_the_thread_tells)
{
	cr_expect_eq(look(1150, 0), 0);
	cr_expect_eq(look(1110, 150), 110);
}

Test(pending, is_never_more_than_was_told)
{
	cr_expect_eq(look(1400, 20), 20);
	cr_expect_eq(look(1400, 30), 50);
	now_ns += 100 * MS;
	cr_expect_eq(look(1400, 0), 50);
	cr_expect_eq(look(1400, 300), 50, "that block was found among what was resident");
}

Test(pending, is_over_after_two_seconds)
{
	cr_expect_eq(look(1150, 150), 150);
	now_ns += 1990 * MS;
	cr_expect_eq(look(1150, 1), 150);
	cr_expect_eq(look(1150, 1), 0);
}

Test(pending, is_over_after_two_seconds_from_when_it_was_told)
{
	cr_expect_eq(look(1150, 0), 0);
	cr_expect_eq(look(1150, 150), 150);
	now_ns += 1990 * MS;
	cr_expect_eq(look(1150, 0), 150);
	cr_expect_eq(look(1150, 0), 0);
}

/* As the address space tells it: so many MB that are not resident. */
static uint64_t look_by_space(int64_t untouched_mb, uint64_t taken_mb)
{
	const struct mt_untouched untouched = {.known = true, .space_bytes = untouched_mb * (int64_t)MB};

	now_ns += 10 * MS;
	mt_pending_look(&pending, &untouched, taken_mb * MB, now_ns);
	return pending.bytes / MB;
}

Test(pending, is_not_what_a_purge_has_given_back)
{
	cr_expect_eq(look_by_space(1000, 0), 0);
	cr_expect_eq(look_by_space(1150, 150), 150);
	mt_pending_discarded(&pending, 160 * MB);
	cr_expect_eq(look_by_space(1150 + 160 - 80, 0), 70, "80 MB of it have been touched since");
	cr_expect_eq(look_by_space(1150 + 160 - 150, 30), 0);
}

Test(pending, is_read_from_figures_that_a_purge_does_not_change)
{
	cr_expect_eq(look(1150, 150), 150);
	mt_pending_discarded(&pending, 160 * MB);
	cr_expect_eq(look(1070, 0), 70);
}

/* An allocator that begins to tell, or that does not any more. */
Test(pending, is_compared_by_the_figures_that_both_looks_have)
{
	struct mt_untouched now = {.known = true, .space_bytes = 9000 * (int64_t)MB};

	mt_pending_fork_child(&pending);
	mt_pending_look(&pending, &now, 0, now_ns);
	now = (struct mt_untouched){.known = true, .space_bytes = 9100 * (int64_t)MB, .exact = true, .heap_bytes = 7 * (int64_t)MB};
	mt_pending_look(&pending, &now, 100 * MB, now_ns);
	cr_expect_eq(pending.bytes, 100 * MB);
	now = (struct mt_untouched){.known = true, .space_bytes = 9060 * (int64_t)MB};
	mt_pending_look(&pending, &now, 0, now_ns);
	cr_expect_eq(pending.bytes, 60 * MB);
}

Test(pending, is_not_compared_where_nothing_is_known)
{
	const struct mt_untouched unknown = {.known = false};

	mt_pending_look(&pending, &unknown, 500 * MB, now_ns);
	cr_expect_eq(pending.bytes, 0);
	cr_expect_eq(look(99000, 500), 0);
}
