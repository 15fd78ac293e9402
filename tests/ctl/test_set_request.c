/* tests/ctl/test_set_request.c -- NAME=VALUE for a running process, before a request is sent. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/config.h"
#include "core/core_internal.h"
#include "ctl/channel/control_file.h"
#include "ctl/figures/setting.h"

static struct mt_request request;
static struct mt_error_reason why;

Test(set_request, takes_a_live_setting_by_any_of_its_names)
{
	cr_expect_eq(mt_set_request_parse("MT_GC_ROUNDS=7", &request, &why), MT_ERR_OK);
	cr_expect_str_eq(request.name, "gc_rounds");
	cr_expect_str_eq(request.value, "7");
	cr_expect_eq(request.kind, MT_REQUEST_SET);
}

Test(set_request, refuses_what_is_not_valid_and_says_why)
{
	cr_expect_eq(mt_set_request_parse("gc_rounds", &request, &why), MT_ERR_INVALID);
	cr_expect_str_eq(why.text, "'gc_rounds': NAME=VALUE is wanted");
	cr_expect_eq(mt_set_request_parse("gc_ronds=1", &request, &why), MT_ERR_INVALID);
	cr_expect_str_eq(why.text, "no setting 'gc_ronds'; did you mean 'gc_rounds'?");
	cr_expect_eq(mt_set_request_parse("idle=1000", &request, &why), MT_ERR_INVALID);
	cr_expect_str_eq(why.text, "no setting 'idle'; did you mean 'idle_ms'?");
	cr_expect_eq(mt_set_request_parse("gc_rounds=x", &request, &why), MT_ERR_INVALID);
	cr_expect_eq(mt_set_request_parse("allocator=system", &request, &why), MT_ERR_START_ONLY);
}

/* A request has room for 95 bytes: gc_rounds=000...07 arrived as 0. */
Test(set_request, a_value_that_is_too_long_is_refused_and_not_cut)
{
	char text[160];

	snprintf(text, sizeof(text), "gc_rounds=%0*d", 95, 7);
	cr_expect_eq(mt_set_request_parse(text, &request, &why), MT_ERR_OK);
	cr_expect_str_eq(request.value, text + strlen("gc_rounds="));
	snprintf(text, sizeof(text), "gc_rounds=%0*d", 96, 7);
	cr_expect_eq(mt_set_request_parse(text, &request, &why), MT_ERR_INVALID);
}

/* What the shim takes, mtctl does not refuse. */
Test(set_request, zeros_before_a_number_are_valid)
{
	cr_expect_eq(mt_set_request_parse("crit_pct=000000000000000000015", &request, &why),
		     MT_ERR_OK, "%s", why.text);
	cr_expect_eq(mt_set_request_parse("crit_pct=00000000000000000000101", &request, &why),
		     MT_ERR_INVALID);
	cr_expect_eq(mt_set_request_parse("crit_pct=99999999999999999999999999", &request, &why),
		     MT_ERR_INVALID);
}

/* ---- the shim and mtctl ---- */

static unsigned complaints;

static void count(const char *text)
{
	(void)text;
	complaints++;
}

static const char *const odd_values[] = {
	"",
	"0",
	"1",
	"00",
	"-1",
	"+1",
	" 1",
	"1 ",
	"1.5",
	"1e3",
	"0x10",
	"5",
	"64",
	"65",
	"100",
	"101",
	"10000",
	"4294967296",
	"on",
	"off",
	"ON",
	"yes",
	"true",
	"TRUE",
	"auto",
	"none",
	"USR1",
	"SIGUSR1",
	"usr1",
	"RTMIN",
	"9",
	"timer",
	"10s",
	"timer:30",
	"timer:",
	"wait",
	"async",
	"system",
	"jemalloc",
	"1k",
	"99999999999999999999",
	"000000000000000000001",
};

/* Values that the environment of a program has, and `mtctl run --NAME=VALUE`. */
Test(set_request, the_shim_and_mtctl_agree_on_odd_values_of_each_setting)
{
	size_t settings_count;
	const struct mt_setting *settings = mt_setting_all(&settings_count);

	for (size_t i = 0; i < settings_count; i++) {
		for (size_t j = 0; j < sizeof(odd_values) / sizeof(odd_values[0]); j++) {
			char entry[128];
			const char *const environment[] = {entry, NULL};
			struct mt_config config;
			bool is_taken;

			snprintf(entry, sizeof(entry), "%s=%s", settings[i].environment,
				 odd_values[j]);
			complaints = 0;
			mt_config_parse(environment, &config, count);
			is_taken = mt_setting_check(&settings[i], odd_values[j], &why) == MT_ERR_OK;
			cr_expect_eq(is_taken, complaints == 0, "%s: mtctl %s it", entry,
				     is_taken ? "takes" : "refuses");
		}
	}
}
