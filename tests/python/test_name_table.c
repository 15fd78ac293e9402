/* The tables of Python's names, stacks and lines, filled to the brim: a new entry has no room, all
 * that were there are found, and no search goes on for ever. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dump_layout.h"
#include "python/python_internal.h"

TestSuite(name_table, .timeout = 30);

static uint32_t add(struct mt_name_table *names, unsigned number, int width)
{
	char name[512];
	int bytes = snprintf(name, sizeof(name), "<gen%0*u>", width, number);

	return mt_tracing_name_add(names, name, (size_t)bytes);
}

/* Returns how many names had room. */
static unsigned fill(struct mt_name_table *names, int width)
{
	unsigned number = 0;

	while (add(names, number, width) != MT_NAME_TABLE_REST)
		number++;
	return number;
}

Test(name_table, takes_names_until_it_is_full_and_finds_each_of_them)
{
	struct mt_name_table *names = calloc(1, sizeof(*names));
	unsigned count = fill(names, 1);

	cr_assert_eq(count, MT_NAME_TABLE_COUNT_MAX - 1);
	for (unsigned number = 0; number < count; number++) {
		char name[16];

		snprintf(name, sizeof(name), "<gen%u>", number);
		cr_assert_str_eq(names->text + add(names, number, 1), name);
	}
	cr_expect_str_eq(names->text + add(names, count + 70000, 1), MT_LINES_REST);
	free(names);
}

Test(name_table, takes_long_names_until_their_text_is_full)
{
	struct mt_name_table *names = calloc(1, sizeof(*names));
	unsigned count = fill(names, 400);

	cr_assert_gt(count, 1000);
	cr_assert_lt(count, MT_NAME_TABLE_COUNT_MAX);
	cr_expect_leq(names->bytes, sizeof(names->text) - 8);
	cr_expect_neq(add(names, count - 1, 400), MT_NAME_TABLE_REST);
	free(names);
}

Test(name_table, ends_a_name_at_its_first_nul)
{
	struct mt_name_table *names = calloc(1, sizeof(*names));
	uint32_t offset = mt_tracing_name_add(names, "a\0b", 3);

	cr_expect_eq(mt_tracing_name_add(names, "a\0c", 3), offset);
	cr_expect_eq(mt_tracing_name_add(names, "a", 1), offset);
	free(names);
}

Test(name_table, the_table_of_stacks_counts_what_is_beyond_it)
{
	struct mt_lines_head head = {0};
	struct mt_lines_frame frame = {0};
	uint32_t number, index = 0;

	cr_assert(mt_tracing_table_map());
	mt_tracing_table_begin_reading(0);
	for (number = 0; index != MT_LINE_TABLE_NONE; number++) {
		frame = (struct mt_lines_frame){mt_tracing_table_name("x.py", 4), number};
		index = mt_tracing_table_stack(&frame, 1);
		mt_tracing_table_add(index, 10);
	}
	cr_expect_eq(number, MT_LINES_STACKS_MAX + 1);
	frame.line = 7;
	cr_expect_eq(mt_tracing_table_stack(&frame, 1), 7);
	mt_tracing_table_describe(&head);
	cr_expect_eq(head.left_out_count, 1);
	cr_expect_eq(head.left_out_bytes, 10);
	mt_tracing_table_unmap();
}

Test(name_table, the_table_of_stacks_takes_no_more_frames_than_it_has)
{
	struct mt_lines_frame frames[MT_LINES_DEPTH_MAX] = {{0}};
	uint32_t number = 0;

	cr_assert(mt_tracing_table_map());
	do
		frames[0].line = ++number;
	while (mt_tracing_table_stack(frames, MT_LINES_DEPTH_MAX) != MT_LINE_TABLE_NONE);
	cr_expect_eq(number, MT_LINES_FRAMES_MAX / MT_LINES_DEPTH_MAX + 1);
	mt_tracing_table_unmap();
}
