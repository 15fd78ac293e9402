/* tests/ctl/test_top_row.c -- the live view: figures, columns, and which of them a screen has
 * room for. */
#include <criterion/criterion.h>

#include "ctl/output/text.h"
#include "top_rows.h"

#define SECOND UINT64_C(1000000000)

static struct mt_top_row row;

static struct mt_top_cell_text cell(enum mt_top_column column)
{
	const struct mt_top_shown shown = {&row, &row.own};

	return mt_top_column_cell(column, &shown, 100 * SECOND);
}

Test(top_columns, bytes_take_five_characters)
{
	cr_expect_str_eq(mt_short_bytes(0).text, "0");
	cr_expect_str_eq(mt_short_bytes(1).text, "1K");
	cr_expect_str_eq(mt_short_bytes(512 * 1024).text, "512K");
	cr_expect_str_eq(mt_short_bytes(1023 * 1024).text, "1.0M");
	cr_expect_str_eq(mt_short_bytes(98 * MB / 10).text, "9.8M");
	cr_expect_str_eq(mt_short_bytes(262 * MB).text, "262M");
	cr_expect_str_eq(mt_short_bytes(1280 * MB).text, "1.25G");
	cr_expect_str_eq(mt_short_bytes(16384 * MB).text, "16.0G");
	cr_expect_str_eq(mt_short_bytes((uint64_t)2 << 40).text, "2.00T");
	for (uint64_t bytes = 1; bytes < (uint64_t)9000 << 40; bytes += bytes / 7 + 1)
		cr_assert_leq(strlen(mt_short_bytes(bytes).text), 5);
}

Test(top_columns, fragmentation_is_what_no_cleanup_returns_of_the_resident_heap)
{
	struct mt_process_list_entry entry = {.state = MT_PROCESS_AWAKE};

	entry.head.snapshot.heap_live_bytes = 60 * MB;
	entry.head.snapshot.heap_dirty_bytes = 70 * MB;
	entry.head.snapshot.heap_active_bytes = 120 * MB;
	entry.head.snapshot.heap_metadata_bytes = 10 * MB;
	entry.head.snapshot.heap_resident_bytes = 200 * MB;
	mt_tree_sums_read(&entry.own, &entry.head.snapshot);
	mt_top_row_fill(&row, &entry);
	cr_expect_str_eq(cell(MT_COLUMN_FRAG).text.text, "30");

	/* An allocator that does not count such pages says the same by what is left. */
	entry.head.snapshot.heap_active_bytes = 0;
	mt_tree_sums_read(&entry.own, &entry.head.snapshot);
	mt_top_row_fill(&row, &entry);
	cr_expect_str_eq(cell(MT_COLUMN_FRAG).text.text, "30");
	cr_expect_eq(cell(MT_COLUMN_FRAG).style, MT_STYLE_WARN);
}

Test(top_columns, budget_is_what_cleaning_has_cost_of_wall_time)
{
	struct mt_process_list_entry entry = {.state = MT_PROCESS_AWAKE};

	entry.head.snapshot.uptime_ms = 10000;
	entry.head.snapshot.purge_cost_ns = 150000000;
	entry.head.snapshot.refault_cost_ns = 50000000;
	mt_top_row_fill(&row, &entry);
	row.budget_pct = 3;
	cr_expect_str_eq(cell(MT_COLUMN_BUDGET).text.text, "2.0/3");
	cr_expect_eq(cell(MT_COLUMN_BUDGET).style, MT_STYLE_PLAIN);
	row.budget_pct = 1;
	cr_expect_eq(cell(MT_COLUMN_BUDGET).style, MT_STYLE_BAD);
	row.budget_pct = 0;
	cr_expect_str_eq(cell(MT_COLUMN_BUDGET).text.text, "2.0", "it holds from 10 s on");
}

Test(top_columns, the_last_cleanup_is_its_bytes_its_age_and_its_reason)
{
	make_row(&row, 10, MT_ANCESTRY_NONE, 100);
	cr_expect_str_eq(cell(MT_COLUMN_FREED).text.text, "-");
	row.last = (struct mt_top_cleanup){.time_ns = 40 * SECOND,
					   .before_bytes = 500 * MB,
					   .after_bytes = 189 * MB,
					   .reason = MT_REASON_LIVE_DROP};

	cr_expect_str_eq(cell(MT_COLUMN_FREED).text.text, "-311M");
	cr_expect_str_eq(cell(MT_COLUMN_AGO).text.text, "1m");
	cr_expect_str_eq(cell(MT_COLUMN_REASON).text.text, "live_drop");
}

Test(top_columns, a_merged_record_is_no_cleanup_of_its_own)
{
	static struct mt_stats_file file;

	file.head.cleanups_count = 2;
	file.cleanups[0] =
		(struct mt_stats_cleanup){.number = 1, .time_ns = 7, .rss_before_bytes = 9};
	file.cleanups[1] = (struct mt_stats_cleanup){.number = 2, .time_ns = 8, .merged = 1};

	cr_expect_eq(mt_top_row_last_cleanup(&file).time_ns, 7);
}

Test(top_columns, a_process_asleep_says_so_and_has_no_heap)
{
	make_row(&row, 10, MT_ANCESTRY_NONE, 3);
	row.state = MT_PROCESS_ASLEEP;

	cr_expect_str_eq(cell(MT_COLUMN_rss_bytes).text.text, "3.0M");
	cr_expect_str_eq(cell(MT_COLUMN_LIVE).text.text, "-");
	cr_expect_str_eq(cell(MT_COLUMN_REASON).text.text, "asleep");
}

Test(top_columns, every_width_has_room_for_the_columns_it_shows)
{
	for (int width = 40; width <= 300; width++)
		for (int kinds = 0; kinds < 4; kinds++) {
			struct mt_top_layout layout;
			int end = 0;

			mt_top_layout_make((struct mt_top_optional){kinds & 1, kinds & 2}, width,
					   &layout);
			cr_assert(layout.width[MT_COLUMN_PID] &&
				  layout.width[MT_COLUMN_rss_bytes] &&
				  layout.width[MT_COLUMN_COMMAND] >= 10);
			for (int i = 0; i < MT_COLUMNS_COUNT; i++) {
				if (!layout.width[i])
					continue;
				cr_assert_geq(layout.start[i], end);
				end = layout.start[i] + layout.width[i];
			}
			cr_assert_leq(end, width, "%d of %d", end, width);
			cr_assert(kinds & 1 || !layout.width[MT_COLUMN_RANK]);
			cr_assert(kinds & 2 || !layout.width[MT_COLUMN_gpu_reserved_bytes]);
		}
}

Test(top_columns, eighty_columns_show_the_last_cleanup_and_160_show_all)
{
	struct mt_top_layout layout;

	mt_top_layout_make((struct mt_top_optional){false, false}, 80, &layout);
	cr_expect(layout.width[MT_COLUMN_FREED] && layout.width[MT_COLUMN_AGO] &&
		  layout.width[MT_COLUMN_PARTS] && layout.width[MT_COLUMN_TREND]);
	mt_top_layout_make((struct mt_top_optional){true, true}, 160, &layout);
	for (int i = 0; i < MT_COLUMNS_COUNT; i++)
		cr_expect(layout.width[i], "%s", mt_top_column((enum mt_top_column)i)->name);
}
