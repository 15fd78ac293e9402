/* tests/ctl/test_top_canvas.c -- the live view: text on a canvas, pictures out of characters,
 * history behind them. */
#include <criterion/criterion.h>

#include "ctl/ui/top/top.h"
#include "top_rows.h"

#define SECOND UINT64_C(1000000000)

static struct mt_cells canvas;
static struct mt_top_history history;
static char text[512];

static const char *line(int row)
{
	FILE *to = fmemopen(text, sizeof(text), "w");

	mt_cells_write_row(&(struct mt_cells){canvas.columns, canvas.rows, canvas.unicode, false,
					      canvas.cells},
			   row, to);
	fclose(to);
	return text;
}

static void add_point(uint64_t seconds, uint64_t rss_mb)
{
	const struct mt_top_point point = {seconds * SECOND, rss_mb * MB, {.is_known = false}};

	mt_top_history_add(&history, &point);
}

Test(top_canvas, text_is_cut_at_the_end_of_its_field)
{
	mt_cells_start(&canvas, 10, 2);
	mt_cells_put(&canvas, (struct mt_cell_place){0, 2, 5}, MT_STYLE_PLAIN, "abcdef");
	mt_cells_put(&canvas, (struct mt_cell_place){1, 7, 0}, MT_STYLE_PLAIN, "abcdef");
	mt_cells_put(&canvas, (struct mt_cell_place){5, 0, 0}, MT_STYLE_PLAIN, "outside");
	mt_cells_put(&canvas, (struct mt_cell_place){-1, -4, 0}, MT_STYLE_PLAIN, "outside");

	cr_expect_str_eq(line(0), "  abc");
	cr_expect_str_eq(line(1), "       abc");
	mt_cells_free(&canvas);
}

Test(top_canvas, what_is_not_printable_becomes_a_question_mark)
{
	mt_cells_start(&canvas, 20, 1);
	mt_cells_put(&canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_PLAIN,
		     "a\033[2Jb\nc\xc3\xa4\x7f\x9b");

	cr_expect_str_eq(line(0), "a?[2Jb?c????");
	mt_cells_free(&canvas);
}

Test(top_canvas, right_aligned_text_keeps_its_beginning)
{
	mt_cells_start(&canvas, 10, 2);
	mt_cells_put_right(&canvas, (struct mt_cell_place){0, 0, 6}, MT_STYLE_PLAIN, "1.2G");
	mt_cells_put_right(&canvas, (struct mt_cell_place){1, 0, 3}, MT_STYLE_PLAIN, "123456");

	cr_expect_str_eq(line(0), "  1.2G");
	cr_expect_str_eq(line(1), "123");
	mt_cells_free(&canvas);
}

Test(top_canvas, a_trend_lies_between_its_least_and_its_most)
{
	history = (struct mt_top_history){0};
	add_point(100, 400);
	add_point(130, 398);
	add_point(160, 388);
	mt_cells_start(&canvas, 4, 1);
	canvas.unicode = true;
	mt_top_draw_trend(&canvas, (struct mt_cell_place){0, 0, 4}, &history, 160 * SECOND);
	cr_expect_eq(mt_cells_at(&canvas, 0, 0)->glyph, L'\u2588');
	cr_expect_eq(mt_cells_at(&canvas, 0, 1)->glyph, L'\u2587');
	cr_expect_eq(mt_cells_at(&canvas, 0, 3)->glyph, L'\u2581', "the least is not blank");

	canvas.unicode = false;
	mt_top_draw_trend(&canvas, (struct mt_cell_place){0, 0, 4}, &history, 160 * SECOND);
	cr_expect_str_eq(line(0), "#==_", "%s", line(0));
	mt_cells_free(&canvas);
}

Test(top_canvas, a_trend_that_hardly_moves_is_flat)
{
	history = (struct mt_top_history){0};
	add_point(100, 1000);
	add_point(130, 1001);
	add_point(160, 1000);
	mt_cells_start(&canvas, 4, 1);
	mt_top_draw_trend(&canvas, (struct mt_cell_place){0, 0, 4}, &history, 160 * SECOND);
	cr_expect_str_eq(line(0), "----", "%s", line(0));
	mt_cells_free(&canvas);
}

Test(top_canvas, history_before_the_first_update_is_blank)
{
	struct mt_top_point spread[6];

	history = (struct mt_top_history){0};
	add_point(990, 10);
	add_point(1000, 20);
	mt_top_history_resample(&history, 1000 * SECOND, spread, 6);

	cr_expect_eq(spread[3].time_ns, 0);
	cr_expect_eq(spread[4].rss_bytes, 10 * MB);
	cr_expect_eq(spread[5].rss_bytes, 20 * MB);
}

Test(top_canvas, history_goes_on_when_the_clock_is_set_back)
{
	struct mt_top_point spread[1];

	history = (struct mt_top_history){0};
	add_point(10000, 400);
	add_point(9999, 500); /* two looks that crossed */
	cr_expect_eq(history.count, 1);
	add_point(6400, 100);
	add_point(6460, 200);
	cr_expect_eq(history.count, 2);
	mt_top_history_resample(&history, 6460 * SECOND, spread, 1);
	cr_expect_eq(spread[0].rss_bytes, 200 * MB);
}

Test(top_canvas, history_reaches_back_15_minutes_and_keeps_peaks_at_any_interval)
{
	struct mt_top_point spread[10];
	uint64_t most = 0;

	history = (struct mt_top_history){0};
	for (uint64_t tenth = 0; tenth < 12000; tenth++) {
		const struct mt_top_point point = {SECOND + tenth * SECOND / 10,
						   (tenth == 9005 ? 900 : 100) * MB,
						   {.is_known = false}};

		mt_top_history_add(&history, &point);
	}
	mt_top_history_resample(&history, 1201 * SECOND, spread, 10);
	for (size_t i = 0; i < 10; i++)
		most = spread[i].rss_bytes > most ? spread[i].rss_bytes : most;

	cr_expect_eq(mt_top_history_span(&history, 1201 * SECOND), 900 * SECOND);
	cr_expect_eq(most, 900 * MB);
	cr_expect_eq(spread[9].rss_bytes, 100 * MB);
	cr_expect_neq(spread[0].time_ns, 0, "the oldest part is still there");
}

Test(top_canvas, samples_out_of_time_are_left_out)
{
	static struct mt_stats_file file;

	history = (struct mt_top_history){0};
	file.head.samples_count = 4;
	/* too old */
	file.samples[0] = (struct mt_stats_sample){.time_ns = 10 * SECOND, .rss_bytes = 1};
	file.samples[1] = (struct mt_stats_sample){.time_ns = 2000 * SECOND, .rss_bytes = 2};
	/* goes back */
	file.samples[2] = (struct mt_stats_sample){.time_ns = 1500 * SECOND, .rss_bytes = 3};
	/* yet to come */
	file.samples[3] = (struct mt_stats_sample){.time_ns = 9000 * SECOND, .rss_bytes = 4};
	mt_top_history_seed(&history, &file, 2100 * SECOND);

	cr_expect_eq(history.count, 1);
	cr_expect_eq(history.points[0].rss_bytes, 2);
}

Test(top_canvas, a_bar_shows_its_parts_also_without_colours)
{
	const struct mt_top_part parts[] = {{25, MT_STYLE_LIVE},
					    {25, MT_STYLE_REUSABLE},
					    {UINT64_MAX, MT_STYLE_FILES},
					    {0, MT_STYLE_PLAIN}};
	const struct mt_top_bar bar = {parts, 100, "x"};

	mt_cells_start(&canvas, 12, 1);
	mt_top_draw_bar(&canvas, (struct mt_cell_place){0, 0, 10}, &bar);
	cr_expect_str_eq(line(0), "[##~~===x]", "%s", line(0));
	mt_cells_free(&canvas);
}

/* 60 s of 30 MB live, then 30 s of 30 MB live and 30 MB reusable; 10 MB of files throughout. */
static void make_process(struct mt_top_row *row, struct mt_top_marks *marks)
{
	history = (struct mt_top_history){0};
	for (uint64_t second = 910; second <= 1000; second += 5) {
		uint64_t reusable_mb = second > 970 ? 30 : 0;
		const struct mt_top_point point = {second * SECOND,
						   (40 + reusable_mb) * MB,
						   {.bytes = {30 * MB, reusable_mb * MB, 10 * MB}}};

		mt_top_history_add(&history, &point);
	}
	*marks = (struct mt_top_marks){
		.list = {{915 * SECOND, 'p', true, false}, {955 * SECOND, 'h', true, true}},
		.count = 2};
	make_row(row, 4711, MT_ANCESTRY_NONE, 70);
	row->history = &history;
	row->marks = marks;
	row->own.purged_bytes = 512 * MB;
}

Test(top_canvas, the_pane_has_the_parts_over_time_and_the_cleanups_on_its_axis)
{
	static struct mt_top_marks marks;
	struct mt_top_row row;

	setenv("TZ", "UTC", 1);
	make_process(&row, &marks);
	mt_cells_start(&canvas, 40, 12);
	mt_top_pane_draw(&canvas, (struct mt_top_area){0, 12}, &row, 1000 * SECOND);

	cr_expect_not_null(strstr(line(0), "- 4711 work4711.py - returned 512M"), "%s", line(0));
	cr_expect_str_eq(line(2), "  100 MB+", "%s", line(2));
	cr_expect_str_eq(line(4), "        |                     =========", "%s", line(4));
	cr_expect_str_eq(line(6), "   50 MB+                     ~~~~~~~~~", "%s", line(6));
	cr_expect_str_eq(line(7), "        |=====================~~~~~~~~~", "%s", line(7));
	cr_expect_str_eq(line(9), "        |##############################", "%s", line(9));
	cr_expect_str_eq(line(10), "       0+-p----+--------h+---------+---", "%s", line(10));
	cr_expect_str_eq(line(11), "           00:15:30  00:16:00  00:16:30", "%s", line(11));
	mt_cells_free(&canvas);
}

Test(top_canvas, the_pane_takes_what_the_list_leaves_and_stays_away_from_small_screens)
{
	cr_expect_eq(mt_top_pane_rows(19, 10), 0);
	cr_expect_eq(mt_top_pane_rows(24, -100), 9);
	cr_expect_eq(mt_top_pane_rows(24, 12), 12);
	cr_expect_eq(mt_top_pane_rows(50, 45), 30);
}

Test(top_canvas, a_frame_has_every_process_and_stays_within_its_size)
{
	struct mt_top_machine machine = {.total_bytes = 1000 * MB, .used_bytes = 500 * MB};
	struct mt_top_gpus gpus = {0};
	struct mt_top_model model;
	struct mt_top_frame sample = {.model = &model,
				      .machine = &machine,
				      .gpus = &gpus,
				      .now_ns = 1000 * SECOND,
				      .interval_ms = 2000};
	size_t first = 0;

	start_family(&model);
	for (int columns = 40; columns < 170; columns += 13)
		for (int rows = 8; rows < 30; rows += 3) {
			mt_cells_start(&canvas, columns, rows);
			mt_top_draw_list(&canvas, &sample,
					 (struct mt_top_area){
						 mt_top_draw_header(&canvas, &sample, 3), rows - 1},
					 &first);
		}
	mt_top_draw_once(&canvas, &sample, 100);
	cr_expect_not_null(strstr(line(0), "mtctl top  5 processes"));
	cr_expect_not_null(strstr(line(4), " work10.py"), "%s", line(4));
	cr_expect_not_null(strstr(line(6), "| `-work40.py"), "%s", line(6));
	mt_top_model_end(&model);
	mt_cells_free(&canvas);
}

Test(top_canvas, the_list_scrolls_so_that_the_selected_process_is_in_sight)
{
	struct mt_top_machine machine = {0};
	struct mt_top_gpus gpus = {0};
	struct mt_top_model model;
	struct mt_top_frame sample = {.model = &model, .machine = &machine, .gpus = &gpus};
	size_t first = 0;

	start_family(&model);
	mt_top_model_move(&model, 4);
	mt_cells_start(&canvas, 60, 3);
	mt_top_draw_list(&canvas, &sample, (struct mt_top_area){0, 3}, &first);
	cr_expect_eq(first, 3);
	cr_expect_eq(mt_cells_at(&canvas, 2, 0)->style, MT_STYLE_SELECTED);
	mt_top_model_move(&model, -4);
	mt_top_draw_list(&canvas, &sample, (struct mt_top_area){0, 3}, &first);
	cr_expect_eq(first, 0);
	mt_top_model_end(&model);
	mt_cells_free(&canvas);
}

Test(top_canvas, a_prompt_takes_printable_keys_as_far_as_there_is_room)
{
	struct mt_top_prompt prompt = {.kind = MT_PROMPT_FILTER};

	for (const char *key = "ab\t\033c"; *key && *key != '\033'; key++)
		mt_top_prompt_key(&prompt, *key, 4);
	cr_expect_eq(mt_top_prompt_key(&prompt, 'd', 4), MT_PROMPT_EDITED);
	cr_expect_eq(mt_top_prompt_key(&prompt, 'e', 4), MT_PROMPT_UNCHANGED);
	cr_expect_eq(mt_top_prompt_key(&prompt, MT_KEY_UP, 4), MT_PROMPT_UNCHANGED);
	cr_expect_str_eq(prompt.text, "abd");
	mt_top_prompt_key(&prompt, MT_KEY_BACKSPACE, 4);
	cr_expect_str_eq(prompt.text, "ab");
	cr_expect_eq(mt_top_prompt_key(&prompt, MT_KEY_ENTER, 4), MT_PROMPT_ACCEPTED);
	cr_expect_eq(mt_top_prompt_key(&prompt, MT_KEY_ESCAPE, 4), MT_PROMPT_CANCELLED);
}

Test(top_canvas, a_question_is_accepted_by_y_alone)
{
	struct mt_top_prompt prompt = {.kind = MT_PROMPT_HEAVY};

	cr_expect_eq(mt_top_prompt_key(&prompt, 'y', 4), MT_PROMPT_ACCEPTED);
	cr_expect_eq(mt_top_prompt_key(&prompt, 'n', 4), MT_PROMPT_CANCELLED);
	cr_expect_eq(mt_top_prompt_key(&prompt, MT_KEY_ENTER, 4), MT_PROMPT_CANCELLED);
}
