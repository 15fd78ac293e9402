/* test_pointer_table.c -- gpu/blocks: filled far beyond its buckets, and with keys of
 * one bucket. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "gpu/blocks.h"

#define NODES 50000u

static struct mt_pointer_table table;

static struct mt_pointer_node *fill(uint64_t first, uint64_t step, uint32_t count)
{
	struct mt_pointer_node *nodes = calloc(count, sizeof(*nodes));

	cr_assert(mt_pointer_table_map(&table));
	for (uint32_t i = 0; i < count; i++) {
		atomic_store(&nodes[i].key, first + step * i);
		cr_assert_null(mt_pointer_table_insert(&table, &nodes[i]));
	}
	return nodes;
}

Test(pointer_table, finds_each_of_many_and_none_of_others)
{
	struct mt_pointer_node *nodes = fill(0x7f0000000000, 512, NODES);

	for (uint32_t i = 0; i < NODES; i++) {
		uint64_t key = 0x7f0000000000 + 512ull * i;

		cr_assert_eq(mt_pointer_table_find(&table, key), &nodes[i]);
		cr_assert_null(mt_pointer_table_find(&table, key + 256));
	}
	for (uint32_t i = 0; i < NODES; i++)
		cr_assert(mt_pointer_table_remove(&table, &nodes[i]));
	free(nodes);
}

Test(pointer_table, finds_each_where_all_share_a_bucket, .timeout = 60)
{
	struct mt_pointer_node *nodes = calloc(2000, sizeof(*nodes));
	uint64_t key = 1, found = 0;

	cr_assert(mt_pointer_table_map(&table));
	for (uint32_t i = 0; i < 2000; key++)
		if (mt_pointer_bucket(key) / 8 == 5) {
			atomic_store(&nodes[i].key, key);
			cr_assert_null(mt_pointer_table_insert(&table, &nodes[i++]));
		}
	for (uint32_t i = 0; i < 2000; i++)
		found += mt_pointer_table_find(&table, atomic_load(&nodes[i].key)) == &nodes[i];
	cr_expect_eq(found, 2000);
	free(nodes);
}
