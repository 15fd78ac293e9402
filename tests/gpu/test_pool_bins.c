/* test_pool_bins.c -- gpu/blocks: the cached block for a request, found in bounded time. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "gpu/blocks.h"

#define BLOCKS 1000

static struct mt_bins bins;
static struct mt_block blocks[BLOCKS];

static void add(int number, uint64_t bytes)
{
	blocks[number].bytes = bytes;
	blocks[number].bin = mt_bins_index(bytes);
	mt_bins_add(&bins, &blocks[number]);
}

Test(pool_bins, the_smallest_that_fits_is_found_in_a_higher_bin_of_the_same_pages)
{
	add(0, 40ull << 20);
	add(1, (39ull << 20) + (256 << 10));
	add(2, 41ull << 20);
	cr_expect_eq(mt_bins_find(&bins, (38ull << 20) + 512), &blocks[1]);
	cr_expect_eq(mt_bins_find(&bins, 40ull << 20), &blocks[0]);
	cr_expect_null(mt_bins_find(&bins, 38ull << 20), "it would take fewer pages");
	mt_bins_remove(&bins, &blocks[1]);
	cr_expect_eq(mt_bins_find(&bins, (38ull << 20) + 512), &blocks[0]);
}

Test(pool_bins, sizes_that_share_a_bin_are_told_apart)
{
	add(0, 8ull << 20);
	add(1, (8ull << 20) + (64ull << 10));
	cr_assert_eq(blocks[0].bin, blocks[1].bin);
	cr_expect_eq(mt_bins_find(&bins, 8ull << 20), &blocks[0]);
	cr_expect_eq(mt_bins_find(&bins, (8ull << 20) + (64ull << 10)), &blocks[1]);
}

/* Bins of one width for all sizes: blocks of 2.25 MiB hid those of 2.34 that were freed before. */
Test(pool_bins, many_of_a_smaller_size_do_not_hide_a_block)
{
	add(0, 2457600);
	add(1, 629145600);
	for (int i = 2; i < BLOCKS / 2; i++)
		add(i, 2359296);
	for (int i = BLOCKS / 2; i < BLOCKS; i++)
		add(i, 92274688);
	cr_expect_eq(mt_bins_find(&bins, 2457600), &blocks[0]);
	cr_expect_eq(mt_bins_find(&bins, 629145600), &blocks[1]);
}

/* Against a search of all blocks, with sizes that share bins, some of them many times. */
Test(pool_bins, whatever_comes_and_goes_the_smallest_that_fits_is_found)
{
	bool is_in[BLOCKS] = {false};

	srand(1);
	for (int turn = 0; turn < 20000; turn++) {
		uint64_t wanted = (64ull << 20) + (uint64_t)(rand() % 400) * 2560,
			 least = UINT64_MAX;
		const struct mt_block *found = mt_bins_find(&bins, wanted);
		int i = rand() % BLOCKS;

		for (int j = 0; j < BLOCKS; j++)
			if (is_in[j] && blocks[j].bytes >= wanted && blocks[j].bytes < least &&
			    mt_bins_pages(blocks[j].bytes) == mt_bins_pages(wanted))
				least = blocks[j].bytes;
		cr_assert_eq(found ? found->bytes : UINT64_MAX, least);
		if (is_in[i])
			mt_bins_remove(&bins, &blocks[i]);
		else
			add(i, (64ull << 20) + (uint64_t)(rand() % 400) * 2560);
		is_in[i] = !is_in[i];
	}
}

/* As many as a hundred thousand would be: a list without an end. */
Test(pool_bins, a_search_of_very_many_ends)
{
	for (int i = 0; i < BLOCKS; i++)
		add(i, (8ull << 20) + 512);
	blocks[0].bin_next = &blocks[BLOCKS - 1];
	cr_expect_null(mt_bins_find(&bins, (8ull << 20) + 1024));
}

Test(pool_bins, what_shares_a_page_is_not_rounded_up_to_what_takes_one)
{
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - MT_BIN_UNIT - 1), MT_BIN_SMALL - MT_BIN_UNIT);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - MT_BIN_UNIT + 1), 0);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - 1), 0);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL), MT_BIN_SMALL);
}
