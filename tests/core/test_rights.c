/* test_rights.c -- core/thread: whether two threads may do the same with their ids, by the
 * kernel's own lines. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "sys/os.h"
#include "core/thread.h"
#include "core/core_internal.h"

#define STATUS(uid, groups, effective, seccomp)                                                    \
	"Name:\tx\nUid:\t" uid "\nGid:\t0\t0\t0\t0\nGroups:\t" groups                              \
	" \nCapInh:\t0\nCapPrm:\tff\nCapEff:\t" effective "\nSeccomp:\t" seccomp                   \
	"\nSeccomp_filters:\t0\n"
#define ROOT "0\t0\t0\t0"

static const char plain[] = STATUS(ROOT, "1 2", "ff", "0");

Test(rights, are_alike_whatever_the_groups)
{
	cr_expect(mt_thread_rights_compare(plain, plain));
	cr_expect(mt_thread_rights_compare(plain, STATUS(ROOT, "", "ff", "0")));
}

Test(rights, differ_by_an_id_or_a_capability)
{
	cr_expect_not(mt_thread_rights_compare(plain, STATUS("0\t7\t0\t0", "1 2", "ff", "0")));
	cr_expect_not(mt_thread_rights_compare(plain, STATUS(ROOT, "1 2", "f", "0")));
	cr_expect_not(mt_thread_rights_compare(plain, STATUS(ROOT, "1 2", "fff", "0")),
		      "the beginning is the same");
}

Test(rights, are_not_known_behind_filters_that_may_differ)
{
	const char *filtered = STATUS(ROOT, "1 2", "ff", "2");

	cr_expect_not(mt_thread_rights_compare(filtered, filtered));
}

Test(rights, are_not_known_of_a_text_that_was_cut)
{
	for (size_t length = 0; length < sizeof(plain) - sizeof("\nSeccomp_filters:\t0");
	     length++) {
		char cut[sizeof(plain)];

		(void)snprintf(cut, sizeof(cut), "%.*s", (int)length, plain);
		cr_expect_not(mt_thread_rights_compare(plain, cut), "%zu", length);
	}
}

Test(rights, a_thread_that_is_not_there_has_none)
{
	cr_expect_not(mt_thread_rights_are_equal(0));
	cr_expect_not(mt_thread_rights_are_equal(1 << 30));
}
