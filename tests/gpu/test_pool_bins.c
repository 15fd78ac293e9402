/* test_pool_bins.c -- gpu/blocks: the largest cached block, told in bounded time. */
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

Test(pool_bins, the_largest_is_the_largest_of_all_bins)
{
	cr_expect_eq(mt_bins_largest(&bins), 0);
	add(0, 4096);
	cr_expect_eq(mt_bins_largest(&bins), 4096);
	add(1, 512);
	cr_expect_eq(mt_bins_largest(&bins), 4096);
	add(2, 80ull << 30);
	add(3, 2 << 20);
	cr_expect_eq(mt_bins_largest(&bins), 80ull << 30);
	mt_bins_remove(&bins, &blocks[2]);
	cr_expect_eq(mt_bins_largest(&bins), 2 << 20);
}

/* The sizes of one bin, the largest the oldest; and then without an end, as a hundred thousand
 * would be. */
Test(pool_bins, the_largest_of_very_many_is_told_at_once_and_within_a_64th)
{
	const uint64_t most = (64ull << 20) + (1 << 20) - 512;

	add(0, most);
	for (int i = 1; i < BLOCKS; i++)
		add(i, 64ull << 20);
	cr_assert_eq(blocks[0].bin, blocks[1].bin);
	blocks[0].bin_next = &blocks[BLOCKS - 1];
	cr_expect_leq(mt_bins_largest(&bins), most);
	cr_expect_geq(mt_bins_largest(&bins), most - most / 64);
}

Test(pool_bins, of_a_small_bin_one_block_stands_for_all)
{
	for (int i = 0; i < BLOCKS; i++)
		add(i, 1024);
	blocks[0].bin_next = &blocks[BLOCKS - 1];
	cr_expect_eq(mt_bins_largest(&bins), 1024);
}

Test(pool_bins, what_shares_a_page_is_not_rounded_up_to_what_takes_one)
{
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - MT_BIN_UNIT - 1), MT_BIN_SMALL - MT_BIN_UNIT);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - MT_BIN_UNIT + 1), 0);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL - 1), 0);
	cr_expect_eq(mt_bins_round(MT_BIN_SMALL), MT_BIN_SMALL);
}
