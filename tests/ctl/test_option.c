/* tests/ctl/test_option.c -- ctl/command: the values of options. */
#include <criterion/criterion.h>
#include <stddef.h>

#include "ctl/command.h"

static uint64_t ms_of(const char *text)
{
	uint64_t ms = 0;
	const struct mt_option option = {.name = "for", .target = &ms, .min = 0.1};

	return mt_option_ms(&option, text) ? ms : 0;
}

Test(option, takes_a_duration_with_and_without_a_unit)
{
	static const char *two_seconds[] = {"2", "2s", "2000ms", "2.0"};

	for (size_t i = 0; i < sizeof(two_seconds) / sizeof(two_seconds[0]); i++)
		cr_assert_eq(ms_of(two_seconds[i]), 2000, "%s", two_seconds[i]);
	cr_assert_eq(ms_of("0.034m"), 2040);
	cr_assert_eq(ms_of("24h"), 86400000);
}

Test(option, refuses_what_is_no_duration)
{
	static const char *wrong[] = {"0", "-1", "abc", "5x", "5ss", "", "25h", "nan"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(ms_of(wrong[i]), 0, "%s", wrong[i]);
}
