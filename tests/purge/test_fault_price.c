/* test_fault_price.c -- purge/fault_price: what a page fault costs here. */
#include <criterion/criterion.h>

#include "purge/fault_price.h"

Test(faults, a_huge_one_that_had_to_wait_for_room_is_no_price_for_all)
{
	cr_expect_eq(mt_fault_price_limit_huge_ns(300000, 2500, 512), 300000);
	cr_expect_eq(mt_fault_price_limit_huge_ns(51000000, 2500, 512), 2500 * 512);
}

Test(faults, are_measured_in_sane_bounds)
{
	uint64_t small_ns = 0, huge_ns = 0, huge_bytes = 0;

	mt_fault_price_measure(&small_ns, &huge_ns, &huge_bytes);
	cr_expect_gt(small_ns, 0);
	cr_expect_leq(huge_ns, small_ns * (huge_bytes / 4096));
}

Test(faults, are_not_measured_by_half_a_gigabyte_of_the_program_s)
{
	const uint64_t kib = 1024, mib = 1024 * 1024;

	cr_expect_eq(mt_fault_price_sample_bytes(4 * kib, 2 * mib), 6 * mib,
		     "the huge one at an aligned place");
	cr_expect_eq(mt_fault_price_sample_bytes(4 * kib, 0), 512 * kib);
	cr_expect_leq(mt_fault_price_sample_bytes(64 * kib, 512 * mib), 8 * mib);
	cr_expect_leq(mt_fault_price_sample_bytes(16 * kib, 32 * mib), 8 * mib);
}
