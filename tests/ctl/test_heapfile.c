/* test_heapfile.c -- ctl/heapfile: jemalloc's profile read, scaled, and refused where it is not
 * what it should be. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/profile/sites.h"

#define HEAD "heap_v2/524288\n  t*: 3: 1000 [0: 0]\n  t0: 3: 1000 [0: 0]\n"
#define MAPS "\nMAPPED_LIBRARIES:\n55f0-55f1 r-xp 0 fe:00 1 /bin/x\n"

static struct mt_heap_profile file;
static struct mt_error_reason why;

static enum mt_err parse(const char *text)
{
	return mt_heap_profile_parse(text, strlen(text), &file, &why);
}

Test(heapfile, reads_stacks_innermost_first_with_the_counts_of_all_threads)
{
	cr_assert_eq(parse(HEAD "@ 0x7f01 0x55f0ab\n  t*: 2: 900 [7: 9]\n  t0: 1: 400 [0: 0]\n  "
				"t1: 1: 500 [0: 0]\n"
				"@ 0x7f02\n  t*: 1: 100 [0: 0]\n  t0: 1: 100 [0: 0]\n" MAPS),
		     MT_ERR_OK, "%s", why.text);

	cr_expect_eq(file.rate_bytes, 524288);
	cr_assert_eq(file.stacks_count, 2);
	cr_expect_eq(file.stacks[0].frames_count, 2);
	cr_expect_eq(file.addresses[file.stacks[0].first], 0x7f01);
	cr_expect_eq(file.addresses[file.stacks[0].first + 1], 0x55f0ab);
	cr_expect_eq(file.stacks[0].sampled_count, 2);
	cr_expect_eq(file.stacks[0].sampled_bytes, 900);
	cr_expect_eq(file.addresses[file.stacks[1].first], 0x7f02);
	mt_heap_profile_free(&file);
}

Test(heapfile, leaves_out_stacks_of_which_nothing_lives)
{
	cr_assert_eq(parse(HEAD "@ 0x1 0x2\n  t*: 0: 0 [4: 40]\n@ 0x3\n  t*: 1: 64 [0: 0]\n" MAPS),
		     MT_ERR_OK);

	cr_assert_eq(file.stacks_count, 1);
	cr_expect_eq(file.addresses_count, 1);
	cr_expect_eq(file.addresses[0], 3);
	mt_heap_profile_free(&file);
}

Test(heapfile, a_stack_may_be_empty_and_a_profile_without_stacks)
{
	cr_assert_eq(parse(HEAD "@\n  t*: 1: 64 [0: 0]\n" MAPS), MT_ERR_OK);
	cr_expect_eq(file.stacks_count, 1);
	cr_expect_eq(file.stacks[0].frames_count, 0);
	mt_heap_profile_free(&file);
	cr_assert_eq(parse(HEAD MAPS), MT_ERR_OK);
	cr_expect_eq(file.stacks_count, 0);
	mt_heap_profile_free(&file);
}

Test(heapfile, refuses_what_is_no_whole_profile)
{
	static const char *const texts[] = {
		"",
		"heap_v2/0\n  t*: 0: 0 [0: 0]\n" MAPS,
		"heap_v1/524288\n  t*: 0: 0 [0: 0]\n" MAPS,
		"heap_v2/99999999999999999999\n  t*: 0: 0 [0: 0]\n" MAPS,
		"heap_v2/-1\n  t*: 0: 0 [0: 0]\n" MAPS,
		HEAD,
		HEAD "@ 0x1\n",
		HEAD "@ 0x1\n  t*: 1: 64 [0: 0]\n",
		HEAD "@ 0x1\n  t*: 1: 64 [0: 0]" MAPS,
		HEAD "@ 0xg\n  t*: 1: 64 [0: 0]\n" MAPS,
		HEAD "@ 12\n  t*: 1: 64 [0: 0]\n" MAPS,
		HEAD "@ 0x11111111111111111\n  t*: 1: 64 [0: 0]\n" MAPS,
		HEAD "@ 0x1\n  t*: -1: 64 [0: 0]\n" MAPS,
		HEAD "@ 0x1\n  t*: 1 64 [0: 0]\n" MAPS,
		HEAD "@ 0x1\n  t*: 18446744073709551616: 64 [0: 0]\n" MAPS,
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_expect_eq(parse(texts[i]), MT_ERR_INVALID, "text %zu was taken", i);
		cr_expect_null(file.stacks);
		cr_expect_null(file.addresses);
	}
}

/* Behind the maps, with addresses that stand at the beginning of stacks. */
Test(heapfile, reads_the_lines_of_python)
{
	cr_assert_eq(
		parse(HEAD
		      "@ 0x7f20 0x7f10 0x55f0ab\n  t*: 1: 64 [0: 0]\n" MAPS
		      "\nPYTHON_LINES:\n0x7f20 14 /app/train.py\n"
		      "0x7f10 353 /usr/lib/python3.11/json/a b\033[31m.py\n0x7f18 1 <string>\n"),
		MT_ERR_OK);

	cr_assert_eq(file.lines_count, 3);
	cr_expect_str_eq(mt_heap_profile_line(&file, 0x7f20)->text, "/app/train.py:14");
	cr_expect(mt_heap_profile_line(&file, 0x7f20)->is_own);
	cr_expect_str_eq(mt_heap_profile_line(&file, 0x7f10)->text,
			 "/usr/lib/python3.11/json/a b?[31m.py:353");
	cr_expect(!mt_heap_profile_line(&file, 0x7f10)->is_own);
	cr_expect(mt_heap_profile_line(&file, 0x7f18)->is_typed_in);
	cr_expect_null(mt_heap_profile_line(&file, 0x55f0ab), "an address of code");
	mt_heap_profile_free(&file);
}

Test(heapfile, lines_of_python_end_where_they_make_no_sense)
{
	static const char *const endings[] = {"0x7f28 1",
					      "0x7f28 1 ",
					      "0x7f28 /app/x.py\n",
					      "0x7f28 2147483648 /app/x.py\n",
					      "7f28 1 x\n",
					      "\n",
					      ""};

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 HEAD MAPS "\nPYTHON_LINES:\n0x7f20 14 /app/train.py\n%s", endings[i]);
		cr_assert_eq(parse(text), MT_ERR_OK);
		cr_expect_eq(file.lines_count, 1, "%s", endings[i]);
		mt_heap_profile_free(&file);
	}
}

Test(heapfile, refuses_a_stack_that_is_too_deep)
{
	char *text = malloc(100000);
	size_t used = (size_t)sprintf(text, HEAD "@");

	for (int i = 0; i <= MT_HEAP_PROFILE_FRAMES; i++)
		used += (size_t)sprintf(text + used, " 0x%x", i + 1);
	strcpy(text + used, "\n  t*: 1: 64 [0: 0]\n" MAPS);

	cr_expect_eq(parse(text), MT_ERR_INVALID);
	free(text);
}

/* A file of 256 MB has room for 16 million, which cost mtctl 1 GB. */
Test(heapfile, keeps_a_million_addresses_and_the_bytes_of_every_stack)
{
	enum { STACKS = 20000, FRAMES = 100 };
	char *text = malloc((size_t)STACKS * (FRAMES * 4 + 64) + sizeof(HEAD) + sizeof(MAPS));
	size_t used = (size_t)sprintf(text, HEAD), bytes = 0;

	for (int i = 0; i < STACKS; i++) {
		text[used++] = '@';
		for (int j = 0; j < FRAMES; j++)
			used += (size_t)sprintf(text + used, " 0x%x", j % 15 + 1);
		used += (size_t)sprintf(text + used, "\n  t*: 1: 64 [0: 0]\n");
	}
	strcpy(text + used, MAPS);

	cr_assert_eq(parse(text), MT_ERR_OK, "%s", why.text);
	free(text);
	for (size_t i = 0; i < file.stacks_count; i++)
		bytes += file.stacks[i].sampled_bytes;
	cr_expect_eq(file.addresses_count, 1000000);
	cr_expect_eq(bytes, STACKS * 64);
	cr_expect_eq(file.stacks[9999].frames_count, FRAMES);
	cr_expect_eq(file.stacks[STACKS - 1].frames_count, 0);
	mt_heap_profile_free(&file);
}

/* Any byte changed, any length: an answer, never a read beyond the end (the block is as long as the
 * text). */
Test(heapfile, whatever_the_text_says_the_reader_stays_within_it)
{
	static const char whole[] =
		HEAD "@ 0x7f01 0x55f0ab\n  t*: 2: 900 [7: 9]\n  t0: 1: 400 [0: 0]\n@ 0x1\n"
		     "  t*: 1: 64 [0: 0]\n" MAPS;
	static const char bytes[] = "\n@ 0x9:[]*t\xff";
	unsigned state = 1;

	for (int i = 0; i < 100000; i++) {
		size_t length = (size_t)rand_r(&state) % sizeof(whole);
		char *text = malloc(length ? length : 1);

		memcpy(text, whole, length);
		for (int changes = rand_r(&state) % 4; changes > 0 && length; changes--)
			text[(size_t)rand_r(&state) % length] =
				bytes[(size_t)rand_r(&state) % sizeof(bytes)];
		if (mt_heap_profile_parse(text, length, &file, &why) == MT_ERR_OK)
			mt_heap_profile_free(&file);
		free(text);
	}
}

Test(heapfile, a_sample_counts_as_often_as_it_was_unlikely)
{
	uint64_t count, bytes;

	/* of 64 bytes: one in 8192.5 is sampled */
	mt_heap_profile_scale(524288, 10, 640, &count, &bytes);
	cr_expect_eq(count, 81925);
	cr_expect_float_eq((double)bytes, 81925.0 * 64, 64);
	mt_heap_profile_scale(524288, 2, 2 * 524288, &count, &bytes); /* 1 - 1/e of them */
	cr_expect_eq(count, 3);
	cr_expect_float_eq((double)bytes, 2 * 524288 / (1 - exp(-1)), 1);
	mt_heap_profile_scale(524288, 3, 3ull << 30, &count, &bytes); /* always seen */
	cr_expect_eq(count, 3);
	cr_expect_eq(bytes, 3ull << 30);
}

Test(heapfile, scaling_never_divides_by_zero_nor_overflows)
{
	uint64_t count, bytes;

	mt_heap_profile_scale(524288, 0, 0, &count, &bytes);
	cr_expect_eq(count, 0);
	cr_expect_eq(bytes, 0);
	mt_heap_profile_scale(1, UINT64_MAX, UINT64_MAX, &count, &bytes);
	cr_expect_leq(count, (uint64_t)INT64_MAX);
	mt_heap_profile_scale(UINT64_MAX, UINT64_MAX, 1, &count, &bytes);
	cr_expect_leq(bytes, (uint64_t)INT64_MAX);
}
