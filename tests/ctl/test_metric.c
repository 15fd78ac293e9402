/* test_metric.c -- what Prometheus calls our figures, and how their text is written. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/metrics/openmetrics.h"
#include "ctl/metrics/openmetrics_internal.h"

static struct mt_metric metric_of(const char *name, bool is_counter)
{
	const struct mt_figure field = {.name = name, .help = "a figure", .is_counter = is_counter};
	struct mt_metric metric = {0};

	mt_metric_of_figure(&field, "mtshim_", &metric);
	return metric;
}

static void expect_metric(const char *field, bool is_counter, const char *sample, const char *unit)
{
	struct mt_metric metric = metric_of(field, is_counter);

	cr_expect_str_eq(metric.sample, sample);
	cr_expect_str_eq(metric.unit, unit);
}

Test(metric, names_end_in_base_units)
{
	expect_metric("heap_live_bytes", false, "mtshim_heap_live_bytes", "bytes");
	expect_metric("purged_bytes", true, "mtshim_purged_bytes_total", "bytes");
	expect_metric("ticks_cost_ns", true, "mtshim_ticks_cost_seconds_total", "seconds");
	expect_metric("psi_some_ns", true, "mtshim_psi_some_seconds_total", "seconds");
	expect_metric("tick_ms", false, "mtshim_tick_seconds", "seconds");
	expect_metric("budget_ratio_thousandths", false, "mtshim_budget_ratio", "ratio");
}

Test(metric, names_without_a_unit_have_none_and_never_end_in_count)
{
	expect_metric("load_thousandths", false, "mtshim_load", "");
	expect_metric("threads_count", false, "mtshim_threads", "");
	expect_metric("purge_count", true, "mtshim_purge_total", "");
	expect_metric("num_ooms", true, "mtshim_num_ooms_total", "");
	expect_metric("pressure_level", false, "mtshim_pressure_level", "");
}

/* One family with one sample, as text. */
static void expect_text(enum mt_exposition_format format, struct mt_metric metric, uint64_t value,
			const char *expected)
{
	struct mt_exposition page = {.format = format};
	size_t bytes;
	char *text;

	mt_exposition_begin(&page, &metric);
	mt_exposition_sample(&page, NULL, value);
	text = mt_exposition_end(&page, &bytes);
	cr_expect_str_eq(text, expected);
	cr_expect_eq(bytes, strlen(expected));
	free(text);
}

Test(exposition, openmetrics_names_the_family_and_its_unit)
{
	expect_text(MT_EXPOSITION_OPENMETRICS, metric_of("cpu_ns", true), 1500000000,
		    "# TYPE mtshim_cpu_seconds counter\n# UNIT mtshim_cpu_seconds seconds\n# HELP "
		    "mtshim_cpu_seconds a figure\n"
		    "mtshim_cpu_seconds_total 1.5\n# EOF\n");
}

Test(exposition, the_older_format_names_the_samples_and_has_no_end)
{
	expect_text(MT_EXPOSITION_TEXT, metric_of("cpu_ns", true), 1500000000,
		    "# TYPE mtshim_cpu_seconds_total counter\n# HELP mtshim_cpu_seconds_total a "
		    "figure\nmtshim_cpu_seconds_total 1.5\n");
}

Test(exposition, an_info_is_a_gauge_to_the_older_format)
{
	struct mt_metric metric = {.name = "a", .type = MT_METRIC_INFO, .unit = "", .help = "b"};

	mt_metric_name_sample(&metric);
	expect_text(MT_EXPOSITION_TEXT, metric, 1,
		    "# TYPE a_info gauge\n# HELP a_info b\na_info 1\n");
	expect_text(MT_EXPOSITION_OPENMETRICS, metric, 1,
		    "# TYPE a info\n# HELP a b\na_info 1\n# EOF\n");
}

Test(exposition, values_keep_all_their_digits)
{
	struct mt_metric metric = {.name = "a", .sample = "a", .unit = "", .help = "b"};
	static const struct {
		unsigned decimals;
		uint64_t value;
		const char *line;
	} rows[] = {
		{0, UINT64_MAX, "a 18446744073709551615\n"},
		{9, UINT64_MAX, "a 18446744073.709551615\n"},
		{9, 1, "a 0.000000001\n"},
		{9, 2000000000, "a 2\n"},
		{3, 30, "a 0.03\n"},
		{6, 0, "a 0\n"},
		{3, 1100, "a 1.1\n"},
		{3, 10, "a 0.01\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char expected[128];

		metric.decimals = rows[i].decimals;
		snprintf(expected, sizeof(expected), "# TYPE a gauge\n# HELP a b\n%s",
			 rows[i].line);
		expect_text(MT_EXPOSITION_TEXT, metric, rows[i].value, expected);
	}
}

Test(exposition, help_is_escaped_as_each_format_wants)
{
	struct mt_metric metric = {.name = "a", .sample = "a", .unit = "", .help = "\"b\\\nc"};

	expect_text(MT_EXPOSITION_OPENMETRICS, metric, 1,
		    "# TYPE a gauge\n# HELP a \\\"b\\\\\\nc\na 1\n# EOF\n");
	expect_text(MT_EXPOSITION_TEXT, metric, 1, "# TYPE a gauge\n# HELP a \"b\\\\\\nc\na 1\n");
}

Test(exposition, a_family_without_samples_is_not_announced)
{
	struct mt_exposition page = {.format = MT_EXPOSITION_OPENMETRICS};
	struct mt_metric metric = metric_of("cpu_ns", true);
	size_t bytes;
	char *text;

	mt_exposition_begin(&page, &metric);
	text = mt_exposition_end(&page, &bytes);
	cr_expect_str_eq(text, "# EOF\n");
	free(text);
}

Test(labels, are_escaped_and_joined)
{
	struct mt_labels labels = {0};

	mt_labels_add_number(&labels, "pid", 12);
	mt_labels_add(&labels, "comm", "a\"b\\c\nd{}=,");
	cr_expect_str_eq(labels.text, "pid=\"12\",comm=\"a\\\"b\\\\c\\nd{}=,\"");
	cr_expect_eq(labels.used, strlen(labels.text));
}

Test(labels, one_that_finds_no_room_is_left_out_whole)
{
	struct mt_labels labels = {0};
	char longest[sizeof(labels.text)];

	memset(longest, '\\', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	mt_labels_add(&labels, "a", "b");
	mt_labels_add(&labels, "long", longest);
	mt_labels_add(&labels, "c", "d");
	cr_expect_str_eq(labels.text, "a=\"b\",c=\"d\"");
}

Test(labels, any_length_leaves_them_whole)
{
	for (size_t length = 0; length < 700; length++) {
		struct mt_labels labels = {0};
		char value[701];

		memset(value, '"', length);
		value[length] = '\0';
		mt_labels_add(&labels, "a", value);
		cr_assert_lt(labels.used, sizeof(labels.text));
		cr_assert_eq(labels.used, strlen(labels.text));
		cr_assert(!labels.used || labels.used == strlen("a=\"\"") + 2 * length, "%zu",
			  length);
	}
}
