/* test_pool_settings.c -- MT_CUDA_CONF: what is understood, what is named. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/pool_settings.h"

static char lines[8][400];
static int lines_count;

static void complain(const char *line)
{
	if (lines_count < 8)
		strncpy(lines[lines_count], line, sizeof(lines[0]) - 1);
	lines_count++;
}

static struct mt_pool_settings parse(const char *text)
{
	struct mt_pool_settings settings = {.decay_ms = 7};

	lines_count = 0;
	mt_pool_settings_parse(text, &settings, complain);
	cr_expect_eq(settings.decay_ms, 7);
	return settings;
}

Test(pool_settings, takes_the_three_settings_that_have_a_meaning)
{
	struct mt_pool_settings got =
		parse("roundup_power2_divisions:4, "
		      "max_split_size_mb:128,garbage_collection_threshold:0.8");

	cr_expect_eq(lines_count, 0);
	for (int i = 0; i < MT_POOL_ROUNDUPS; i++)
		cr_expect_eq(got.roundup_divisions[i], 4);
	cr_expect_eq(got.max_split_bytes, 128ull << 20);
	cr_expect_gt(got.gc_threshold, 0.799);
	cr_expect_lt(got.gc_threshold, 0.801);
}

Test(pool_settings, takes_a_list_of_divisions_by_size)
{
	struct mt_pool_settings got =
		parse("roundup_power2_divisions:[ 256:1, 512:2,>:8 ],max_split_size_mb:64");

	cr_expect_eq(lines_count, 0);
	cr_expect_eq(got.roundup_divisions[0], 1); /* under 1 MB */
	cr_expect_eq(got.roundup_divisions[8], 1); /* 128 to 256 */
	cr_expect_eq(got.roundup_divisions[9], 2); /* 256 to 512 */
	cr_expect_eq(got.roundup_divisions[10], 8);
	cr_expect_eq(got.roundup_divisions[MT_POOL_ROUNDUPS - 1], 8);
	cr_expect_eq(got.max_split_bytes, 64ull << 20);
}

Test(pool_settings, names_what_has_no_meaning_once_each)
{
	(void)parse("expandable_segments:True,backend:native,pinned_num_register_threads:8");
	cr_expect_eq(lines_count, 3);
	cr_expect_str_eq(lines[0],
			 "MT_CUDA_CONF: expandable_segments:True: has no meaning for this pool");
}

Test(pool_settings, leaves_the_default_where_a_value_is_malformed)
{
	static const char *const bad[] = {
		"max_split_size_mb:20",
		"max_split_size_mb:",
		"max_split_size_mb",
		"max_split_size_mb:99999999999999",
		"garbage_collection_threshold:1.0",
		"garbage_collection_threshold:0",
		"garbage_collection_threshold:0.",
		"garbage_collection_threshold:-0.5",
		"roundup_power2_divisions:3",
		"roundup_power2_divisions:128",
		"roundup_power2_divisions:[]",
		"roundup_power2_divisions:[256:1",
		"roundup_power2_divisions:[256:3]",
		"roundup_power2_divisions:[300:2]",
		"roundup_power2_divisions:[0:2]",
		"roundup_power2_divisions:[512:2,256:1]",
		"roundup_power2_divisions:[>:4,512:2]",
		"roundup_power2_divisions:[256]",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mt_pool_settings got = parse(bad[i]);

		cr_expect_eq(lines_count, 1, "%s", bad[i]);
		cr_expect_eq(got.max_split_bytes, 0);
		for (int j = 0; j < MT_POOL_ROUNDUPS; j++)
			cr_expect_eq(got.roundup_divisions[j], 0, "%s", bad[i]);
		cr_expect(got.gc_threshold == 0, "%s", bad[i]);
	}
}

Test(pool_settings, cannot_be_made_to_write_control_characters)
{
	(void)parse("a\033[31mb:\n\x01");
	cr_expect_eq(lines_count, 1);
	for (const char *at = lines[0]; *at != '\0'; at++)
		cr_expect(*at >= ' ' && *at <= '~');
}

Test(pool_settings, takes_an_empty_text_and_loose_commas)
{
	(void)parse("");
	cr_expect_eq(lines_count, 0);
	(void)parse(" , ,,");
	cr_expect_eq(lines_count, 0);
}
