/* ctl/ui/top/columns.h -- the table of columns: heading, width, content of a cell, sort order. The
 * help, the sort menu and --sort use it. Those of a sum are rows of MT_TREE_FIGURES
 * (core/figures.def). Pure. */
#ifndef MT_CTL_UI_TOP_COLUMNS_H
#define MT_CTL_UI_TOP_COLUMNS_H

#include "ctl/output/cells.h"
#include "ctl/ui/top/row.h"

/* The columns before and after the sums: identifier, name for --sort, heading, width, rank (a
 * higher rank is dropped first if the screen is narrow), whether the largest comes first, help. The
 * command gets the remaining width. */
#define MT_TOP_FIRST_COLUMNS(X)                                                                    \
	X(PID, "pid", "PID", 7, 0, false, "process")                                               \
	X(RANK, "rank", "RANK", 4, 6, false,                                                       \
	  "its place among processes that train together, if it has one")
#define MT_TOP_LAST_COLUMNS(X)                                                                     \
	X(FRAG, "frag", "FRAG%", 5, 8, true,                                                       \
	  "fragmentation: of the resident heap, what is neither live nor reusable nor the "        \
	  "allocator's own: free, but in pages with live blocks, so that no cleanup returns it")   \
	X(FREED, "freed", "CLEAN", 6, 2, true, "last cleanup: what RSS changed by")                \
	X(AGO, "ago", "AGO", 4, 2, true, "last cleanup: how long ago; the latest first")           \
	X(REASON, "reason", "WHY", 11, 10, false, "last cleanup: the reason")                      \
	X(BUDGET, "budget", "BUDG%", 7, 11, true,                                                  \
	  "wall time that cleaning has cost, page faults included, "                               \
	  "in %, / MT_BUDGET_PCT")                                                                 \
	X(PARTS, "parts", "PARTS", 12, 5, true,                                                    \
	  "the four parts of RSS as a bar, which the largest row fills: live, reusable, files, "   \
	  "other; sorted by RSS")                                                                  \
	X(TREND, "trend", "TREND", 8, 2, true,                                                     \
	  "RSS over the last 15 minutes at most, between its own least and most; "                 \
	  "sorted by what it grew by")                                                             \
	X(COMMAND, "command", "COMMAND", 14, 0, false,                                             \
	  "script or program with its arguments; [+3]: 3 processes are folded into this row")

/* The rows of MT_TREE_FIGURES whose column `top` says yes. */
#define MT_TOP_SUM_no(...)
#define MT_TOP_SUM_yes(SUM, ...) SUM(__VA_ARGS__)

enum mt_top_column {
#define X(id, ...)                                     MT_COLUMN_##id,
#define SUM(name, key, from, tree, cell, ps, top, ...) MT_TOP_SUM_##top(X, name, )
	MT_TOP_FIRST_COLUMNS(X) MT_TREE_FIGURES(SUM, SUM) MT_TOP_LAST_COLUMNS(X) MT_COLUMNS_COUNT
#undef SUM
#undef X
};

#define MT_TOP_NONE SIZE_MAX
struct mt_top_column_info {
	const char *name, *heading;
	size_t sum;     /* its place in struct mt_process_tree_sums; MT_TOP_NONE: it shows no sum */
	unsigned needs; /* of a sum: MT_SUM_..., what the process must have */
	int width, rank;
	bool descends; /* sorted by it, the largest comes first */
	const char *help;
};
const struct mt_top_column_info *mt_top_column(enum mt_top_column column);

/* Returns the column of this name; MT_COLUMNS_COUNT: there is none. */
enum mt_top_column mt_top_column_find(const char *name);

/* A row, and the sums that it shows: its own, or those of its tree. */
struct mt_top_shown {
	const struct mt_top_row *row;
	const struct mt_process_tree_sums *sums;
};
/* Returns negative, 0 or positive: the order of two rows by this column, largest first if the
 * table says so. Never 0 for two processes. */
int mt_top_column_compare(enum mt_top_column column, const struct mt_top_shown *a,
			  const struct mt_top_shown *b);

/* Kinds of columns that the list needs. */
struct mt_top_kinds {
	bool ranks, gpu;
};

/* The position of each column; width 0: it is left out. */
struct mt_top_layout {
	int start[MT_COLUMNS_COUNT], width[MT_COLUMNS_COUNT];
};
void mt_top_layout_make(struct mt_top_kinds kinds, int columns, struct mt_top_layout *out);

/* Returns a cell as text with its style; "" for PARTS, TREND and COMMAND, which
 * list.c draws. */
struct mt_top_cell_text {
	struct mt_short_text text;
	enum mt_cell_style style;
};
struct mt_top_cell_text mt_top_column_cell(enum mt_top_column column,
					   const struct mt_top_shown *shown, uint64_t now_ns);

#endif
