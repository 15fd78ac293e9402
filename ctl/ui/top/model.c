/* ctl/ui/top/model.c -- see top.h. All lines are made again at every update: with 1,000 processes
 * that takes a millisecond. */
#include "ctl/ui/top/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 1000 /* levels of a tree: each takes a stack frame */

void mt_top_model_start(struct mt_top_model *model)
{
	*model = (struct mt_top_model){.sort = MT_COLUMN_rss_bytes};
}

void mt_top_model_end(struct mt_top_model *model)
{
	free(model->rows);
	free(model->lines);
	free(model->folded);
	*model = (struct mt_top_model){0};
}

/* ---- sums ---- */

static void sum_up(struct mt_top_model *model)
{
	model->total = (struct mt_process_tree_sums){0};
	model->asleep_count = 0;
	for (size_t i = 0; i < model->rows_count; i++) {
		mt_tree_sums_add(&model->total, &model->rows[i].own);
		model->asleep_count += model->rows[i].state == MT_PROCESS_ASLEEP;
	}
}

/* Removes the folds of ended processes. */
static void forget_folds(struct mt_top_model *model)
{
	size_t kept = 0;

	for (size_t i = 0; i < model->folded_count; i++)
		if (mt_top_model_find(model, model->folded[i]))
			model->folded[kept++] = model->folded[i];
	model->folded_count = kept;
}

bool mt_top_model_set_rows(struct mt_top_model *model, struct mt_top_row *rows, size_t count)
{
	bool was_selected = model->selected_id.pid != 0;
	struct mt_top_id before = model->selected_id;

	free(model->rows);
	model->rows = rows;
	model->rows_count = count;
	sum_up(model);
	forget_folds(model);
	mt_top_model_arrange(model);
	return was_selected && !mt_top_model_find(model, before);
}

/* ---- filter ---- */

static bool matches(const struct mt_top_row *row, const char *filter)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)row->process.pid);
	return !*filter || strcasestr(row->process.command, filter) ||
	       strcasestr(row->process.comm, filter) || strstr(pid, filter);
}

enum { HIDDEN, CONTEXT, MATCHING };

/* In a tree, ancestors of matching processes stay. */
static void mark(struct mt_top_model *model, char *marks)
{
	model->matching_count = 0;
	for (size_t i = 0; i < model->rows_count; i++) {
		size_t above = model->rows[i].parent;

		if (!matches(&model->rows[i], model->filter))
			continue;
		marks[i] = MATCHING;
		model->matching_count++;
		for (size_t step = 0;
		     above != MT_ANCESTRY_NONE && step < model->rows_count && !model->is_flat;
		     step++) {
			if (marks[above] == HIDDEN)
				marks[above] = CONTEXT;
			above = model->rows[above].parent;
		}
	}
}

/* ---- order ---- */

static struct mt_top_shown shown_of(const struct mt_top_model *model, size_t row)
{
	return (struct mt_top_shown){&model->rows[row], model->is_flat ? &model->rows[row].own
								       : &model->rows[row].tree};
}

static int compare(const void *a, const void *b, void *context)
{
	const struct mt_top_model *model = context;
	const struct mt_top_shown left = shown_of(model, *(const size_t *)a),
				  right = shown_of(model, *(const size_t *)b);
	int order = mt_top_column_compare(model->sort, &left, &right);

	return model->is_reversed ? -order : order;
}

/* ---- folding ---- */

static size_t folded_index(const struct mt_top_model *model, struct mt_top_id id)
{
	size_t i = 0;

	while (i < model->folded_count && !mt_top_id_same(model->folded[i], id))
		i++;
	return i;
}

static size_t count_below(const struct mt_top_model *model, size_t row)
{
	size_t count = 0;

	for (size_t i = 0; i < model->rows_count; i++) {
		size_t above = model->rows[i].parent;

		for (size_t step = 0;
		     above != MT_ANCESTRY_NONE && above != row && step < model->rows_count; step++)
			above = model->rows[above].parent;
		count += above == row && i != row;
	}
	return count;
}

static void add_fold(struct mt_top_model *model, struct mt_top_id id)
{
	if (folded_index(model, id) < model->folded_count)
		return;
	model->folded =
		mt_error_make_room(model->folded, model->folded_count, sizeof(*model->folded));
	model->folded[model->folded_count++] = id;
}

/* ---- lines ---- */

struct arrangement {
	struct mt_top_model *model;
	size_t *order;
	char *marks;
};

static bool is_child(const struct arrangement *at, size_t index, size_t parent)
{
	size_t row = at->order[index];

	return at->marks[row] != HIDDEN &&
	       (at->model->is_flat || at->model->rows[row].parent == parent);
}

static bool has_more(const struct arrangement *at, size_t index, size_t parent)
{
	while (++index < at->model->rows_count)
		if (is_child(at, index, parent))
			return true;
	return false;
}

/* A cycle of parents has no root, and is not shown. The recursion is bounded by DEEPEST: deeper
 * processes are left out. */
static void add_below(const struct arrangement *at, size_t parent, int depth, uint64_t open_depths)
{
	struct mt_top_model *model = at->model;

	for (size_t index = 0; index < model->rows_count; index++) {
		size_t row = at->order[index];
		struct mt_top_line *line = &model->lines[model->lines_count];
		uint64_t depth_bit = depth < 64 ? UINT64_C(1) << depth : 0;

		if (!is_child(at, index, parent))
			continue;
		*line = (struct mt_top_line){.row = row,
					     .sums = model->rows[row].own,
					     .depth = depth,
					     .open_depths = open_depths};
		line->is_last = !has_more(at, index, parent);
		line->is_context = at->marks[row] == CONTEXT;
		model->lines_count++;
		if (model->is_flat)
			continue;
		if (!*model->filter &&
		    folded_index(model, mt_top_row_id(&model->rows[row])) < model->folded_count)
			line->folded_count = count_below(model, row);
		if (line->folded_count)
			line->sums = model->rows[row].tree;
		else if (depth < DEEPEST)
			add_below(at, row, depth + 1,
				  line->is_last ? open_depths : open_depths | depth_bit);
	}
}

/* Columns exist for processes that are shown, or are folded into one that is. */
static void find_optional(struct mt_top_model *model, const char *marks)
{
	model->optional = (struct mt_top_optional){0};
	for (size_t i = 0; i < model->rows_count; i++) {
		model->optional.gpu |= marks[i] != HIDDEN && model->rows[i].uses_cuda;
		model->optional.ranks |= marks[i] != HIDDEN && *model->rows[i].rank;
	}
}

static void select_line(struct mt_top_model *model, size_t index)
{
	model->selected = index;
	model->selected_id = model->lines_count
				     ? mt_top_row_id(&model->rows[model->lines[index].row])
				     : (struct mt_top_id){0};
}

static size_t line_of(const struct mt_top_model *model, size_t row)
{
	size_t i = 0;

	while (i < model->lines_count && model->lines[i].row != row)
		i++;
	return i;
}

/* Selects the line of the selected process, or of the one that it is folded into, or else the same
 * line number. */
static void restore_selection(struct mt_top_model *model)
{
	const struct mt_top_row *found = mt_top_model_find(model, model->selected_id);
	size_t row = found ? (size_t)(found - model->rows) : MT_ANCESTRY_NONE;

	for (size_t step = 0; row != MT_ANCESTRY_NONE && step < model->rows_count; step++) {
		size_t index = line_of(model, row);

		if (index < model->lines_count) {
			select_line(model, index);
			return;
		}
		row = model->rows[row].parent;
	}
	if (model->selected >= model->lines_count)
		model->selected = model->lines_count ? model->lines_count - 1 : 0;
	select_line(model, model->selected);
}

void mt_top_model_arrange(struct mt_top_model *model)
{
	struct arrangement at = {.model = model};

	at.order = mt_error_check_memory(calloc(model->rows_count + 1, sizeof(*at.order)));
	at.marks = mt_error_check_memory(calloc(model->rows_count + 1, 1));
	free(model->lines);
	model->lines = mt_error_check_memory(calloc(model->rows_count + 1, sizeof(*model->lines)));
	model->lines_count = 0;
	for (size_t i = 0; i < model->rows_count; i++)
		at.order[i] = i;
	if (model->rows_count)
		qsort_r(at.order, model->rows_count, sizeof(*at.order), compare, model);
	mark(model, at.marks);
	find_optional(model, at.marks);
	add_below(&at, MT_ANCESTRY_NONE, 0, 0);
	free(at.order);
	free(at.marks);
	restore_selection(model);
}

/* ---- what keys do ---- */

const struct mt_top_row *mt_top_model_selected(const struct mt_top_model *model)
{
	return model->lines_count ? &model->rows[model->lines[model->selected].row] : NULL;
}

const struct mt_top_row *mt_top_model_find(const struct mt_top_model *model, struct mt_top_id id)
{
	for (size_t i = 0; i < model->rows_count; i++)
		if (mt_top_id_same(mt_top_row_id(&model->rows[i]), id))
			return &model->rows[i];
	return NULL;
}

void mt_top_model_move(struct mt_top_model *model, long step)
{
	long last = (long)model->lines_count - 1, index = (long)model->selected;

	if (last < 0)
		return;
	index = step < -index ? 0 : step > last - index ? last : index + step;
	select_line(model, (size_t)index);
}

void mt_top_model_sort(struct mt_top_model *model, enum mt_top_column column)
{
	model->is_reversed = model->sort == column && !model->is_reversed;
	model->sort = column;
	mt_top_model_arrange(model);
}

static bool has_children(const struct mt_top_model *model, size_t row)
{
	for (size_t i = 0; i < model->rows_count; i++)
		if (model->rows[i].parent == row)
			return true;
	return false;
}

void mt_top_model_fold(struct mt_top_model *model)
{
	const struct mt_top_line *line = &model->lines[model->selected];
	size_t parent;

	if (!model->lines_count || model->is_flat)
		return;
	parent = model->rows[line->row].parent;
	if (has_children(model, line->row) && !line->folded_count)
		add_fold(model, model->selected_id);
	else if (parent != MT_ANCESTRY_NONE)
		model->selected_id = mt_top_row_id(&model->rows[parent]);
	mt_top_model_arrange(model);
}

void mt_top_model_unfold(struct mt_top_model *model)
{
	size_t index = folded_index(model, model->selected_id);

	if (index < model->folded_count)
		model->folded[index] = model->folded[--model->folded_count];
	mt_top_model_arrange(model);
}

void mt_top_model_fold_toggle(struct mt_top_model *model)
{
	if (!model->lines_count || model->is_flat)
		return;
	if (model->lines[model->selected].folded_count)
		mt_top_model_unfold(model);
	else if (has_children(model, model->lines[model->selected].row))
		mt_top_model_fold(model);
}

void mt_top_model_fold_all(struct mt_top_model *model)
{
	bool unfolds = model->folded_count > 0;

	model->folded_count = 0;
	for (size_t i = 0; i < model->rows_count && !unfolds; i++)
		if (has_children(model, i))
			add_fold(model, mt_top_row_id(&model->rows[i]));
	mt_top_model_arrange(model);
}
