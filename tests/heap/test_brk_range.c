/* test_brk_range.c -- heap/glibc: by what a block of libc's is told from one of jemalloc's.
 * Each test is a process of its own, with a program break of its own. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <unistd.h>

#include "heap/glibc.h"

#define PAGE 4096

/* Moves the program break, as libc's malloc does. Returns the old one. */
static char *extend(intptr_t bytes)
{
	return sbrk(bytes);
}

static char *begin(void)
{
	char *base = extend(0);

	mt_glibc_range_begin();
	cr_assert(mt_glibc_range_has_begun());
	return base;
}

Test(brk_range, is_extended_to_the_program_break_by_a_block_that_lies_below_it)
{
	char *base = begin();

	extend(3 * PAGE);
	cr_expect_not(mt_glibc_range_is_inside(base + 16));
	cr_expect_eq(mt_glibc_range_add(base + 16), MT_BRK_EXTENDED);
	cr_expect_eq(mt_glibc_range_bytes(), 3 * PAGE);
	cr_expect(mt_glibc_range_is_inside(base + 16));
	cr_expect(mt_glibc_range_is_inside(base + 3 * PAGE - 32));
	cr_expect_eq(mt_glibc_range_add(base + PAGE), MT_BRK_INSIDE);
}

Test(brk_range, has_no_block_of_another_mapping)
{
	char *base = begin();
	int local;

	extend(PAGE);
	cr_expect_eq(mt_glibc_range_add(base), MT_BRK_EXTENDED);
	cr_expect_eq(mt_glibc_range_add(&local), MT_BRK_OUTSIDE);
	cr_expect_eq(mt_glibc_range_add(base - 16), MT_BRK_OUTSIDE);
	cr_expect_eq(mt_glibc_range_add(base + PAGE), MT_BRK_OUTSIDE);
	cr_expect_not(mt_glibc_range_is_inside(&local));
	cr_expect_eq(mt_glibc_range_add(NULL), MT_BRK_INSIDE, "no block, nothing to refuse");
}

Test(brk_range, is_never_extended_once_it_is_frozen)
{
	char *base = begin();

	extend(PAGE);
	cr_expect_eq(mt_glibc_range_add(base), MT_BRK_EXTENDED);
	cr_expect(mt_glibc_range_may_have((void *)UINTPTR_MAX - 1),
		  "before: the slow path decides");
	cr_expect(mt_glibc_range_freeze());
	extend(PAGE);
	cr_expect_eq(mt_glibc_range_add(base + PAGE), MT_BRK_FROZEN);
	cr_expect_eq(mt_glibc_range_add(base + PAGE - 32), MT_BRK_INSIDE);
	cr_expect(mt_glibc_range_may_have(base) && mt_glibc_range_has(base));
	cr_expect(mt_glibc_range_has(base + PAGE - 32));
	cr_expect_not(mt_glibc_range_may_have(base + PAGE));
	cr_expect_not(mt_glibc_range_has(base + PAGE));
	cr_expect_not(mt_glibc_range_has(base - 16));
	cr_expect_not(mt_glibc_range_has(NULL));
	cr_expect_not(mt_glibc_range_give_up());
}

/* A thread got such a block of libc's while another woke the process up, and its free aborted:
 * "invalid pointer", in a third of the runs of glibc's tst-malloc-thread-fail on a busy machine. */
Test(brk_range, that_is_frozen_has_no_block_that_begins_at_its_end)
{
	char *base = begin();

	extend(PAGE);
	cr_expect(mt_glibc_range_freeze());
	extend(PAGE);
	cr_expect_not(mt_glibc_range_is_inside(base + PAGE));
	cr_expect(mt_glibc_range_is_inside(base + PAGE - 16));
}

Test(brk_range, has_at_its_freezing_all_that_lies_below_the_program_break)
{
	char *base = begin();

	extend(2 * PAGE);
	cr_expect(mt_glibc_range_freeze());
	cr_expect_eq(mt_glibc_range_bytes(), 2 * PAGE, "libc may have been called past us");
	cr_expect(mt_glibc_range_has(base + 2 * PAGE - 32));
}

Test(brk_range, stays_as_long_as_it_was_when_libc_lowers_the_program_break)
{
	char *base = begin();

	extend(8 * PAGE);
	cr_expect_eq(mt_glibc_range_add(base), MT_BRK_EXTENDED);
	extend(-6 * PAGE);
	cr_expect(mt_glibc_range_freeze());
	cr_expect_eq(mt_glibc_range_bytes(), 8 * PAGE);
	cr_expect(mt_glibc_range_overlaps(base + 4 * PAGE, PAGE), "jemalloc must not use that");
	cr_expect(mt_glibc_range_overlaps(base - PAGE, PAGE + 1));
	cr_expect_not(mt_glibc_range_overlaps(base - PAGE, PAGE));
	cr_expect_not(mt_glibc_range_overlaps(base + 8 * PAGE, PAGE));
}

Test(brk_range, has_every_block_once_it_is_given_up)
{
	char *base = begin();
	int local;

	extend(PAGE);
	cr_expect_eq(mt_glibc_range_add(base), MT_BRK_EXTENDED);
	cr_expect(mt_glibc_range_give_up());
	cr_expect(mt_glibc_range_is_given_up());
	cr_expect(mt_glibc_range_is_inside(&local));
	cr_expect_eq(mt_glibc_range_add(&local), MT_BRK_INSIDE);
	cr_expect_not(mt_glibc_range_freeze(), "blocks outside could not be told from jemalloc's");
	cr_expect_not(mt_glibc_range_has(&local));
}

Test(brk_range, is_empty_where_no_block_was_made)
{
	begin();

	cr_expect(mt_glibc_range_freeze());
	cr_expect_eq(mt_glibc_range_bytes(), 0);
	cr_expect_eq(mt_glibc_range_end, 0, "no address takes the slow path");
}
