/* ctl/ui/top/model.h -- the visible list: tree or flat, sorted, filtered, folded, and its selected
 * process. The selection follows its process; when that has ended, the process in its line is
 * selected. Pure. */
#ifndef MT_CTL_UI_TOP_MODEL_H
#define MT_CTL_UI_TOP_MODEL_H

#include "ctl/ui/top/row.h"

#define MT_TOP_FILTER_BYTES 64

struct mt_top_line {
	size_t row; /* index in rows */
	/* its own, or those of its tree if it is folded */
	struct mt_process_tree_sums sums;
	int depth;
	/* bit d: at depth d, a sibling of its ancestor follows further below */
	uint64_t open_depths;
	bool is_last;        /* of its siblings */
	bool is_context;     /* does not match the filter, but a descendant does */
	size_t folded_count; /* processes that are hidden in it */
};

struct mt_top_model {
	struct mt_top_row *rows;
	size_t rows_count;
	struct mt_process_tree_sums *trees; /* of each row with its descendants */
	struct mt_process_tree_sums total;
	size_t asleep_count, matching_count;
	struct mt_top_optional optional;

	struct mt_top_line *lines;
	size_t lines_count;
	size_t selected;              /* index in lines */
	struct mt_top_id selected_id; /* pid 0: none */

	enum mt_top_column sort;
	bool is_reversed, is_flat;
	char filter[MT_TOP_FILTER_BYTES];
	struct mt_top_id *folded;
	size_t folded_count;
};

void mt_top_model_start(struct mt_top_model *model);
void mt_top_model_end(struct mt_top_model *model);

/* Takes the rows over. Returns true if the process that was selected has ended. */
bool mt_top_model_set_rows(struct mt_top_model *model, struct mt_top_row *rows, size_t count);

/* Makes the lines again. Must be called after a change of sort, filter or is_flat. */
void mt_top_model_arrange(struct mt_top_model *model);

/* Return the selected row, or the row of this process. NULL: there is none. */
const struct mt_top_row *mt_top_model_selected(const struct mt_top_model *model);
const struct mt_top_row *mt_top_model_find(const struct mt_top_model *model, struct mt_top_id id);

/* Moves the selection up (negative) or down, as far as there are lines. */
void mt_top_model_move(struct mt_top_model *model, long step);

/* Sorts by the column, or reverses the order if it is sorted by that column already. */
void mt_top_model_sort(struct mt_top_model *model, enum mt_top_column column);

/* Fold or unfold the selected process. Folding a process without children selects its parent. */
void mt_top_model_fold(struct mt_top_model *model);
void mt_top_model_unfold(struct mt_top_model *model);
void mt_top_model_fold_toggle(struct mt_top_model *model);

/* Folds all processes that have children; unfolds all if any is folded. */
void mt_top_model_fold_all(struct mt_top_model *model);

#endif
