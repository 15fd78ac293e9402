/* ctl/ui/top/model.h -- what is shown of a list of processes, and in which order: tree or flat,
 * sorted, filtered, folded, and which one is selected. The selected process stays selected wherever
 * it moves to; when it is gone, the one in its place is. Pure. */
#ifndef MT_CTL_UI_TOP_MODEL_H
#define MT_CTL_UI_TOP_MODEL_H

#include "ctl/ui/top/columns.h"

#define MT_TOP_FILTER_BYTES 64

struct mt_top_line {
	size_t row; /* place in rows */
	/* what it shows: its own, or where it is folded those of its tree */
	struct mt_top_sums sums;
	int depth;
	uint64_t rails;      /* bit d: at depth d a sibling of its ancestor follows further below */
	bool is_last;        /* of its siblings */
	bool is_context;     /* does not match the filter, stands there for what is below it */
	size_t folded_count; /* processes hidden in it */
};

struct mt_top_model {
	struct mt_top_row *rows;
	size_t rows_count;
	struct mt_top_sums *trees; /* of each row with all below it */
	struct mt_top_sums total;
	size_t asleep_count, matching_count;
	struct mt_top_kinds kinds;

	struct mt_top_line *lines;
	size_t lines_count;
	size_t selected;              /* place in lines */
	struct mt_top_id selected_id; /* pid 0: nothing is */

	enum mt_top_column sort;
	bool is_reversed, is_flat;
	char filter[MT_TOP_FILTER_BYTES];
	struct mt_top_id *folded;
	size_t folded_count;
};

void mt_top_model_start(struct mt_top_model *model);
void mt_top_model_end(struct mt_top_model *model);

/* Takes the list over. true: the process that was selected has ended. */
bool mt_top_model_take(struct mt_top_model *model, struct mt_top_row *rows, size_t count);

/* Makes the lines again: whoever changes sort, filter or flat calls it. */
void mt_top_model_arrange(struct mt_top_model *model);

/* NULL: the list is empty. */
const struct mt_top_row *mt_top_model_selected(const struct mt_top_model *model);
const struct mt_top_row *mt_top_model_find(const struct mt_top_model *model, struct mt_top_id id);

/* Up (negative) or down, as far as there are lines. */
void mt_top_model_move(struct mt_top_model *model, long step);

/* Sorts by the column; the one by which it is sorted already: the other way round. */
void mt_top_model_sort(struct mt_top_model *model, enum mt_top_column column);

/* The selected one: fold, or unfold what is below it. Fold on one that has nothing to fold selects
 * its parent. */
void mt_top_model_fold(struct mt_top_model *model);
void mt_top_model_unfold(struct mt_top_model *model);
void mt_top_model_fold_toggle(struct mt_top_model *model);

/* All that have something below them; where any is folded, all are unfolded. */
void mt_top_model_fold_all(struct mt_top_model *model);

#endif
