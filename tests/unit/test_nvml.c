/* test_nvml.c -- who is who among the processes of a device. */
#include <criterion/criterion.h>

#include "sense/nvml.h"

static const struct mt_nvml_process three[] = {{.pid = 10, .used_bytes = 100}, {.pid = 42, .used_bytes = 7},
					       {.pid = 11, .used_bytes = 30}};

Test(nvml, finds_us_by_our_pid_and_adds_up_the_others)
{
	struct mt_nvml_usage seen = {0};

	mt_nvml_tell_apart(three, 3, 42, true, &seen);

	cr_expect(seen.own_known && seen.others_known);
	cr_expect_eq(seen.own_bytes, 7);
	cr_expect_eq(seen.others_bytes, 130);
	cr_expect_eq(seen.others_count, 2);
}

Test(nvml, in_a_namespace_the_pids_are_of_others)
{
	struct mt_nvml_usage seen = {0};

	mt_nvml_tell_apart(three, 3, 42, false, &seen);
	cr_expect_not(seen.own_known || seen.others_known);
	cr_expect_eq(seen.others_bytes + seen.own_bytes + seen.others_count, 0);

	mt_nvml_tell_apart(three, 1, 42, false, &seen);
	cr_expect(seen.own_known && seen.others_known, "who is alone is we");
	cr_expect_eq(seen.own_bytes, 100);
}

Test(nvml, a_figure_that_is_not_told_is_not_known)
{
	const struct mt_nvml_process list[] = {{.pid = 42, .used_bytes = ~0ull}, {.pid = 11, .used_bytes = ~0ull}};
	struct mt_nvml_usage seen = {0};

	mt_nvml_tell_apart(list, 2, 42, true, &seen);

	cr_expect_not(seen.own_known);
	cr_expect_eq(seen.others_bytes, 0);
	cr_expect_eq(seen.others_count, 1);
}
