/* tests/ctl/test_top_model.c -- the live view: in which order processes stand, which are shown,
 * which one is selected. */
#include <criterion/criterion.h>

#include "top_rows.h"

static struct mt_top_model model;

Test(top_model, sorts_families_by_what_they_hold_together)
{
	start_family(&model);

	cr_expect_str_eq(pids_of(&model), "10 30 40 20 50");
	cr_expect_eq(model.total.rss_bytes, 1050 * MB);
	cr_expect_eq(model.rows[0].tree.rss_bytes, 850 * MB);
	mt_top_model_end(&model);
}

Test(top_model, sorts_a_flat_list_by_what_each_holds)
{
	start_family(&model);
	model.is_flat = true;
	mt_top_model_arrange(&model);

	cr_expect_str_eq(pids_of(&model), "40 20 50 10 30");
	mt_top_model_sort(&model, MT_COLUMN_rss_bytes);
	cr_expect_str_eq(pids_of(&model), "30 10 50 20 40", "the same column again turns it round");
	mt_top_model_sort(&model, MT_COLUMN_PID);
	cr_expect_str_eq(pids_of(&model), "10 20 30 40 50");
	mt_top_model_end(&model);
}

Test(top_model, draws_branches_only_where_a_sibling_follows)
{
	start_family(&model);

	cr_expect_eq(model.lines[1].depth, 1);
	cr_expect_not(model.lines[1].is_last, "30 has 20 below it");
	cr_expect_eq(model.lines[2].depth, 2);
	cr_expect(model.lines[2].open_depths >> 1 & 1, "the rail of 30 runs on past 40");
	cr_expect(model.lines[3].is_last);
	mt_top_model_end(&model);
}

Test(top_model, keeps_the_ancestors_of_what_matches_a_filter)
{
	start_family(&model);
	strcpy(model.filter, "WORK40");
	mt_top_model_arrange(&model);

	cr_expect_str_eq(pids_of(&model), "10 30 40");
	cr_expect(model.lines[0].is_context && model.lines[1].is_context &&
		  !model.lines[2].is_context);
	cr_expect_eq(model.matching_count, 1);
	mt_top_model_end(&model);
}

Test(top_model, filters_by_pid_as_well)
{
	start_family(&model);
	strcpy(model.filter, "50");
	mt_top_model_arrange(&model);
	cr_expect_str_eq(pids_of(&model), "50");

	strcpy(model.filter, "nothing like it");
	mt_top_model_arrange(&model);
	cr_expect_eq(model.lines_count, 0);
	cr_expect_null(mt_top_model_selected(&model));
	mt_top_model_end(&model);
}

Test(top_model, a_folded_process_shows_the_sum_of_its_tree)
{
	start_family(&model);
	select_pid(&model, 30);
	mt_top_model_fold(&model);

	cr_expect_str_eq(pids_of(&model), "10 30 20 50");
	cr_expect_eq(model.lines[1].folded_count, 1);
	cr_expect_eq(model.lines[1].sums.rss_bytes, 450 * MB);
	mt_top_model_unfold(&model);
	cr_expect_str_eq(pids_of(&model), "10 30 40 20 50");
	mt_top_model_end(&model);
}

Test(top_model, fold_on_a_leaf_goes_to_its_parent)
{
	start_family(&model);
	select_pid(&model, 40);
	mt_top_model_fold(&model);

	cr_expect_eq(mt_top_model_selected(&model)->process.pid, 30);
	cr_expect_str_eq(pids_of(&model), "10 30 40 20 50");
	mt_top_model_end(&model);
}

Test(top_model, fold_all_selects_what_the_selected_one_is_folded_into)
{
	start_family(&model);
	select_pid(&model, 40);
	mt_top_model_fold_all(&model);

	cr_expect_str_eq(pids_of(&model), "10 50");
	cr_expect_eq(mt_top_model_selected(&model)->process.pid, 10);
	cr_expect_eq(model.lines[0].folded_count, 3);
	mt_top_model_fold_all(&model);
	cr_expect_str_eq(pids_of(&model), "10 30 40 20 50");
	mt_top_model_end(&model);
}

Test(top_model, the_selected_process_stays_selected_wherever_it_goes)
{
	struct mt_top_row *rows;
	size_t count;

	start_family(&model);
	select_pid(&model, 50);
	rows = family_rows(&count);
	rows[4].own.rss_bytes = rows[4].tree.rss_bytes = 5000 * MB;

	cr_expect_not(mt_top_model_set_rows(&model, rows, count));
	cr_expect_str_eq(pids_of(&model), "50 10 30 40 20");
	cr_expect_eq(mt_top_model_selected(&model)->process.pid, 50);
	cr_expect_eq(model.selected, 0);
	mt_top_model_end(&model);
}

Test(top_model, when_the_selected_process_ends_the_one_in_its_place_is_selected)
{
	struct mt_top_row *rows;
	size_t count;

	start_family(&model);
	select_pid(&model, 50);
	rows = family_rows(&count);

	cr_expect(mt_top_model_set_rows(&model, rows, count - 1), "it is told");
	cr_expect_eq(mt_top_model_selected(&model)->process.pid, 20);
	cr_expect(mt_top_model_set_rows(&model, calloc(1, sizeof(*rows)), 0));
	cr_expect_null(mt_top_model_selected(&model));
	mt_top_model_move(&model, 1);
	mt_top_model_end(&model);
}

Test(top_model, a_reused_pid_is_another_process)
{
	struct mt_top_row *rows;
	size_t count;

	start_family(&model);
	select_pid(&model, 50);
	rows = family_rows(&count);
	rows[4].process.start_ticks++;

	cr_expect(mt_top_model_set_rows(&model, rows, count));
	mt_top_model_end(&model);
}

Test(top_model, a_cycle_of_parents_ends)
{
	struct mt_top_row *rows;
	size_t count;

	start_family(&model);
	rows = family_rows(&count);
	rows[0].parent = 3;
	mt_top_model_set_rows(&model, rows, count);

	cr_expect_str_eq(pids_of(&model), "50");
	mt_top_model_end(&model);
}

Test(top_model, moves_as_far_as_there_are_lines)
{
	start_family(&model);
	mt_top_model_move(&model, 1000000000);
	cr_expect_eq(model.selected, 4);
	mt_top_model_move(&model, -2);
	cr_expect_eq(model.selected, 2);
	mt_top_model_move(&model, -1000000000);
	cr_expect_eq(model.selected, 0);
	mt_top_model_end(&model);
}
