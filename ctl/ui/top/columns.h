/* ctl/ui/top/columns.h -- the table of columns: heading, width, content of a cell, sort order. The
 * help, the sort menu and --sort use it. Pure. */
#ifndef MT_CTL_UI_TOP_COLUMNS_H
#define MT_CTL_UI_TOP_COLUMNS_H

#include "ctl/output/cells.h"
#include "ctl/ui/top/row.h"

/* Of a column that shows a sum: its place in struct mt_process_tree_sums. */
#define MT_TOP_SUM(member) offsetof(struct mt_process_tree_sums, member)
#define MT_TOP_PART(part)  MT_TOP_SUM(parts.bytes[MT_PART_##part])
#define MT_TOP_NONE        SIZE_MAX

/* identifier, name for --sort, heading, the sum that it shows, width, rank (a higher rank is
 * dropped first if the screen is narrow), whether the largest comes first, help. The command
 * gets the remaining width. */
#define MT_TOP_COLUMNS(X)                                                                          \
	X(PID, "pid", "PID", MT_TOP_NONE, 7, 0, false, "process")                                  \
	X(RANK, "rank", "RANK", MT_TOP_NONE, 4, 6, false,                                          \
	  "its place among processes that train together, if it has one")                          \
	X(RSS, "rss", "RSS", MT_TOP_SUM(rss_bytes), 5, 0, true,                                    \
	  "resident memory; of a folded row, and where a tree is sorted, with all below it")       \
	X(PARTS, "parts", "PARTS", MT_TOP_SUM(rss_bytes), 12, 5, true,                             \
	  "the four parts of RSS as a bar, which the largest row fills: live, reusable, files, "   \
	  "other; sorted by RSS")                                                                  \
	X(LIVE, "live", "LIVE", MT_TOP_PART(LIVE), 5, 1, true,                                     \
	  "resident memory in use by the program")                                                 \
	X(REUSABLE, "reusable", "REUSE", MT_TOP_PART(REUSABLE), 5, 1, true,                        \
	  "reusable: free in the allocator and still resident; a cleanup returns it")              \
	X(FILES, "files", "FILES", MT_TOP_PART(FILES), 5, 7, true, "file pages and shared memory") \
	X(OTHER, "other", "OTHER", MT_TOP_PART(OTHER), 5, 7, true,                                 \
	  "the rest of RSS: stacks, other mappings, what lies between live blocks")                \
	X(FRAG, "frag", "FRAG%", MT_TOP_NONE, 5, 8, true,                                          \
	  "fragmentation: of the resident heap, what is neither live nor reusable nor the "        \
	  "allocator's own: free, but in pages with live blocks, so that no cleanup returns it")   \
	X(GPU_LIVE, "gpu", "GALLOC", MT_TOP_SUM(gpu_allocated_bytes), 6, 3, true,                  \
	  "device memory handed out by cuMemAlloc")                                                \
	X(GPU_HELD, "gpu-held", "GRESV", MT_TOP_SUM(gpu_reserved_bytes), 5, 4, true,               \
	  "device memory reserved: held from the driver for cuMemAlloc")                           \
	X(GPU_IDLE, "gpu-idle", "GIDLE", MT_TOP_SUM(gpu_idle_bytes), 5, 9, true,                   \
	  "of that, cached: a heavy cleanup returns it")                                           \
	X(FREED, "freed", "CLEAN", MT_TOP_NONE, 6, 2, true, "last cleanup: what RSS changed by")   \
	X(AGO, "ago", "AGO", MT_TOP_NONE, 4, 2, true,                                              \
	  "last cleanup: how long ago; the latest first")                                          \
	X(REASON, "reason", "WHY", MT_TOP_NONE, 11, 10, false, "last cleanup: the reason")         \
	X(BUDGET, "budget", "BUDG%", MT_TOP_NONE, 7, 11, true,                                     \
	  "wall time that cleaning has cost, page faults included, "                               \
	  "in %, / MT_BUDGET_PCT")                                                                 \
	X(TREND, "trend", "TREND", MT_TOP_NONE, 8, 2, true,                                        \
	  "RSS over the last 15 minutes at most, between its own least and most; "                 \
	  "sorted by what it grew by")                                                             \
	X(COMMAND, "command", "COMMAND", MT_TOP_NONE, 14, 0, false,                                \
	  "script or program with its arguments; [+3]: 3 processes are folded into this row")

enum mt_top_column {
#define X(id, name, heading, sum, width, rank, descends, help) MT_COLUMN_##id,
	MT_TOP_COLUMNS(X) MT_COLUMNS_COUNT
#undef X
};

struct mt_top_column_info {
	const char *name, *heading;
	size_t sum;
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
