/* tests/ctl/test_cow_sharing.c -- pages of a child and its parent at one address: a copy that was
 * written to, or two unrelated pages. */
#include <criterion/criterion.h>
#include <string.h>

#include "ctl/process/smaps.h"

#define WORDS 512

static uint64_t one[WORDS], other[WORDS];

static void fill(uint64_t *page, uint64_t seed)
{
	for (size_t i = 0; i < WORDS; i++)
		page[i] = seed + i;
}

Test(cow_sharing, one_that_has_had_reference_counts_written_is_alike)
{
	bool tells;

	fill(one, 1000);
	fill(other, 1000);
	for (size_t i = 0; i < WORDS; i += 4)
		other[i]++;

	cr_expect(mt_cow_sharing_alike(one, other, WORDS, &tells));
	cr_expect(tells);
}

Test(cow_sharing, pages_with_other_contents_are_not)
{
	bool tells;

	fill(one, 1000);
	fill(other, 5000);

	cr_expect_not(mt_cow_sharing_alike(one, other, WORDS, &tells));
	cr_expect(tells);
}

Test(cow_sharing, zeroes_that_both_have_make_none_alike)
{
	bool tells;

	for (size_t i = 0; i < 100; i++) {
		one[i] = 7 + i;
		other[i] = 900 + i;
	}

	cr_expect_not(mt_cow_sharing_alike(one, other, WORDS, &tells));
	cr_expect(tells);
}

Test(cow_sharing, empty_pages_tell_nothing)
{
	bool tells;

	one[3] = other[3] = 1;
	(void)mt_cow_sharing_alike(one, other, WORDS, &tells);

	cr_expect_not(tells);
}
