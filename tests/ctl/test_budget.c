/* test_budget.c -- quantities as people write them, and the formulas of mtctl budget. */
#include <criterion/criterion.h>
#include <math.h>

#include "ctl/cmd/budget.h"
#include "ctl/output/text.h"

#define GIB 1073741824.0

static double count_of(const char *text)
{
	double value = -1;

	return mt_units_count(text, &value) ? value : -1;
}

static double bytes_of(const char *text)
{
	double value = -1;

	return mt_units_bytes(text, &value) ? value : -1;
}

Test(quantity, reads_counts_by_thousands)
{
	const struct {
		const char *text;
		double value;
	} rows[] = {
		{"7e9", 7e9},    {"7B", 7e9},     {"7000M", 7e9}, {"7b", 7e9},  {"7 G", 7e9},
		{"1.3B", 1.3e9}, {"175B", 175e9}, {"2k", 2e3},    {"1T", 1e12}, {"2048", 2048},
		{".5M", 5e5},    {"0", 0},        {"", -1},       {"-1", -1},   {"+7", -1},
		{" 7", -1},      {"7x", -1},      {"7BB", -1},    {"0x10", -1}, {"nan", -1},
		{"inf", -1},     {"1e999", -1},   {"1e308T", -1}, {"B", -1},    {"2,048", -1},
		{"7e9\n", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(count_of(rows[i].text), rows[i].value, 1e-6, "%s", rows[i].text);
}

Test(quantity, reads_sizes_by_1024_and_wants_a_unit)
{
	const struct {
		const char *text;
		double value;
	} rows[] = {
		{"16G", 16 * GIB}, {"16GiB", 16 * GIB}, {"16 GB", 16 * GIB},
		{"16g", 16 * GIB}, {"4096M", 4 * GIB},  {"1.5G", 1.5 * GIB},
		{"512K", 524288},  {"1T", 1024 * GIB},  {"16", -1},
		{"", -1},          {"G", -1},           {"16GG", -1},
		{"16Gi", -1},      {"16Q", -1},         {"-1G", -1},
		{"0x1G", -1},      {"1e999G", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(bytes_of(rows[i].text), rows[i].value, 0.5, "%s", rows[i].text);
}

static double seconds_of(const char *text)
{
	double value = -1;

	return mt_units_duration(text, &value) ? value : -1;
}

static double percent_of(const char *text)
{
	double value = -1;

	return mt_units_percent(text, &value) ? value : -1;
}

Test(quantity, reads_durations_with_and_without_a_unit)
{
	const struct {
		const char *text;
		double value;
	} rows[] = {
		{"1", 1},      {"0.5", 0.5},   {"1s", 1},     {"2m", 120},    {"2min", 120},
		{"1h", 3600},  {"1.5h", 5400}, {"1d", 86400}, {"100ms", 0.1}, {"30 s", 30},
		{"0", 0},      {"", -1},       {"s", -1},     {"-1", -1},     {"1x", -1},
		{"1ss", -1},   {"1S", -1},     {"nan", -1},   {"inf", -1},    {"0x10", -1},
		{"1m30s", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(seconds_of(rows[i].text), rows[i].value, 1e-9, "%s",
				   rows[i].text);
}

Test(quantity, reads_percentages_up_to_100)
{
	const struct {
		const char *text;
		double value;
	} rows[] = {
		{"85", 85}, {"85%", 85}, {"2.5 %", 2.5}, {"0", 0},     {"100%", 100}, {"101", -1},
		{"-1", -1}, {"%", -1},   {"", -1},       {"85%%", -1}, {"85p", -1},   {"nan", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_float_eq(percent_of(rows[i].text), rows[i].value, 1e-9, "%s",
				   rows[i].text);
}

/* ---- budget ---- */

static const struct mt_budget_options llama_7b = {
	.params = 7e9,
	.seq = 2048,
	.batch = 4,
	.layers = 32,
	.d_model = 4096,
	.zero = MT_BUDGET_UNSPLIT,
	.mixed = true,
	.checkpoint = true,
};

static struct mt_budget made(struct mt_budget_options options)
{
	struct mt_budget budget = {0};
	struct mt_error_reason why = {.text = ""};

	cr_expect(mt_budget_make(&options, &budget, &why) == MT_ERR_OK, "%s", why.text);
	return budget;
}

static double gib(double bytes)
{
	return round(bytes / GIB * 100) / 100;
}

Test(budget, without_checkpointing_it_is_the_published_estimate)
{
	struct mt_budget_options options = llama_7b;
	double tokens = 2048.0 * 4 * 4096;

	options.checkpoint = false;
	options.heads = 32;
	cr_expect_float_eq(made(options).parts[MT_BUDGET_ACTIVATIONS].bytes,
			   tokens * (34 + 5 * 32 * 2048.0 / 4096) * 32, 1);
	options.flash = true;
	cr_expect_float_eq(made(options).parts[MT_BUDGET_ACTIVATIONS].bytes, tokens * 34 * 32, 1);
	options.flash = false;
	options.mixed = false;
	cr_expect_float_eq(made(options).parts[MT_BUDGET_ACTIVATIONS].bytes,
			   tokens * (66 + 9 * 32 * 2048.0 / 4096) * 32, 1);
}

Test(budget, each_optimizer_has_its_bytes_a_parameter)
{
	const struct {
		const char *name;
		double mixed, full; /* weights, gradients and state */
	} rows[] = {
		{"adam", 16, 16},
		{"AdamW", 16, 16},
		{"adam8bit", 10, 10},
		{"lion", 12, 12},
		{"momentum", 12, 12},
		{"sgd", 8, 8},
		{"rmsprop", 12, 12},
		{"adagrad", 12, 12},
		{"adafactor", 8 + 8 / 4096.0, 8 + 8 / 4096.0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int mixed = 0; mixed < 2; mixed++) {
			struct mt_budget_options options = {
				.params = 7e9,
				.layers = 32,
				.d_model = 4096,
				.zero = MT_BUDGET_UNSPLIT,
				.mixed = mixed,
				.optimizer = mt_optimizer_find(rows[i].name)};

			cr_assert(options.optimizer, "%s", rows[i].name);
			cr_expect_float_eq(made(options).total_bytes,
					   7e9 * (mixed ? rows[i].mixed : rows[i].full), 1, "%s",
					   rows[i].name);
		}
	cr_expect(mt_optimizer_find("adamx") == NULL);
}

Test(budget, zero_shares_out_more_with_every_stage_but_no_activations)
{
	struct mt_budget_options options = llama_7b;
	const double bytes[] = {16, 4 + 12 / 8.0, 2 + 14 / 8.0, 16 / 8.0};

	options.gpus = 8;
	for (options.zero = 0; options.zero < 4; options.zero++) {
		struct mt_budget budget = made(options);

		cr_expect_float_eq(budget.total_bytes - budget.parts[MT_BUDGET_ACTIVATIONS].bytes,
				   7e9 * bytes[options.zero], 1);
		cr_expect_float_eq(gib(budget.parts[MT_BUDGET_ACTIVATIONS].bytes), 2.00, 1e-9);
	}
}

Test(budget, inference_is_weights_and_the_kv_cache)
{
	const struct mt_budget_options options = {.params = 8e9,
						  .seq = 4096,
						  .batch = 8,
						  .layers = 32,
						  .d_model = 4096,
						  .heads = 32,
						  .kv_heads = 8,
						  .zero = MT_BUDGET_UNSPLIT,
						  .mixed = true,
						  .inference = true};
	struct mt_budget budget = made(options);

	cr_expect_float_eq(gib(budget.parts[MT_BUDGET_KV_CACHE].bytes), 4.00, 1e-9);
	cr_expect_float_eq(budget.total_bytes, 16e9 + budget.parts[MT_BUDGET_KV_CACHE].bytes, 1);
}

Test(budget, without_a_shape_the_activations_are_not_known)
{
	struct mt_budget budget =
		made((struct mt_budget_options){.params = 7e9, .zero = MT_BUDGET_UNSPLIT});

	cr_expect_not(budget.parts[MT_BUDGET_ACTIVATIONS].known);
	cr_expect_float_eq(budget.total_bytes, 112e9, 1);
}
