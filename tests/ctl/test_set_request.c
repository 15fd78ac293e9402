/* tests/ctl/test_set_request.c -- NAME=VALUE for a running process, before a request is sent. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ctl/channel/control_file.h"

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
	cr_expect_eq(mt_set_request_parse("frag_gb=000000000000000000015", &request, &why),
		     MT_ERR_OK, "%s", why.text);
	cr_expect_eq(mt_set_request_parse("frag_gb=00000000000000000001025", &request, &why),
		     MT_ERR_INVALID);
	cr_expect_eq(mt_set_request_parse("frag_gb=99999999999999999999999999", &request, &why),
		     MT_ERR_INVALID);
}
