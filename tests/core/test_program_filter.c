/* test_program_filter.c -- core/config: in which programs the shim works. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/config.h"
#include "core/core_internal.h"

Test(config_admits, admits_programs_by_name)
{
	static const struct {
		const char *only;
		const char *exclude;
		const char *program;
		bool admitted;
	} cases[] = {
		/* clang-format off */
		{ "", "", "python3", true }, { "python*", "", "python3.11", true },
		{ "python*", "", "/usr/bin/python3.11", true }, { "python", "", "python3", false },
		{ "python?", "", "python3", true }, { "python?", "", "python", false },
		{ "git, python* ", "", "python", true }, { "git, python*", "", "sh", false },
		{ "*", "git", "git", false }, { "git", "git", "git", false }, { "", "git,sh", "sh", false },
		{ "", "git,sh", "ssh", true }, { "*a*b*c", "", "xxaxxbxbxc", true },
		{ "*a*b*c", "", "xxaxxcxxb", false }, { "a*", "", "a", true }, { "?", "", "", false },
		{ ",,", "", "anything", true }, { "", ",", "anything", true }, { "**", "", "", true },
		{ "a*b", "", "a*b", true }, { "[ab]", "", "a", false }, { "", "/bin/sh", "/bin/sh", true },
		/* clang-format on */
	};
	struct mt_config config;

	mt_config_defaults(&config);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(config.only, sizeof(config.only), "%s", cases[i].only);
		snprintf(config.exclude, sizeof(config.exclude), "%s", cases[i].exclude);
		cr_expect_eq(mt_config_admits(&config, cases[i].program), cases[i].admitted,
			     "only %s exclude %s: %s", cases[i].only, cases[i].exclude,
			     cases[i].program);
	}
	mt_config_defaults(&config);
	cr_expect(mt_config_admits(&config, NULL));
	config.enable = 0;
	cr_expect_not(mt_config_admits(&config, "python3"));
}
