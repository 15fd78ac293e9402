/* ctl/ui/top/row.h -- one process in the list: plain values, from its published ones and from
 * earlier updates, and the columns that show them. Pure. */
#ifndef MT_CTL_UI_TOP_ROW_H
#define MT_CTL_UI_TOP_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "core/stats_layout.h"
#include "ctl/channel/process_list.h"
#include "ctl/figures/stats_file.h"
#include "ctl/metrics/area_chart.h"
#include "ctl/output/cells.h"

/* ---- history ---- */

/* Memory of a process over the last 15 minutes: the samples that its own ring had when top first
 * saw it, and those of top since then. Times are arguments. */

#define MT_TOP_HISTORY_POINTS 512u
#define MT_TOP_HISTORY_NS     (900u * UINT64_C(1000000000))

struct mt_top_point {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t rss_bytes;
	struct mt_memory_parts parts; /* of rss_bytes */
};

struct mt_top_history {
	struct mt_top_point points[MT_TOP_HISTORY_POINTS]; /* a ring */
	size_t first, count;
};

/* Adds a point. A point that is not later than the last one is dropped; one that is more than 10 s
 * earlier restarts the history, since the clock was set back. Points that are closer than 15
 * minutes divided by the size of the ring are merged, with the larger RSS, so that the ring always
 * reaches back 15 minutes. */
void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point);

/* Adds the samples of the ring in a stats file that are at most 15 minutes older than `now_ns`.
 * Samples out of order are left out. */
void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns);

/* Returns the time span of a chart: from the oldest point, 1 to 15 minutes. */
uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns);

/* Writes `count` points over the span, each with the largest RSS of its part of the time. A part
 * without points repeats the one before it. time_ns is 0 if nothing was known yet. */
void mt_top_history_resample(const struct mt_top_history *history, uint64_t now_ns,
			     struct mt_top_point *out, size_t count);

/* ---- the row ---- */

/* The cleanups of a process as marks on a time axis. */
struct mt_top_marks {
	struct mt_area_mark list[MT_CLEANUPS_COUNT]; /* the oldest first */
	size_t count;
	uint64_t kept_since_ns; /* the process keeps no older ones; 0: it keeps all */
};

/* Writes the marks of all cleanups that the file has. A late collection is in the mark of the
 * cleanup that asked for it, as in its entry (ctl/figures/cleanup_history.h). */
void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file);

/* Further figures of a process, as it last published them. */
struct mt_top_figures {
	uint64_t peak_bytes; /* of RSS */
	uint64_t purge_count, light_count, heavy_count;
	uint64_t limit_bytes, limit_used_bytes; /* the nearest limit; 0: none is known */
};

/* The last cleanup that was not merged into another one. */
struct mt_top_cleanup {
	uint64_t time_ns;                   /* CLOCK_REALTIME; 0: none */
	uint64_t before_bytes, after_bytes; /* RSS */
	uint32_t reason, level;
};

struct mt_top_row {
	struct mt_process process;
	/* the command as it is shown: script or program, then its arguments */
	char title[sizeof(((struct mt_process *)0)->command)];
	size_t parent; /* index in the list, MT_ANCESTRY_NONE for a root */
	enum mt_process_state state;
	struct mt_error_reason why; /* MT_PROCESS_REFUSED */
	bool uses_cuda;
	char rank[16];
	uint64_t pressure_level;
	struct mt_process_tree_sums own;
	struct mt_top_figures figures;
	struct mt_top_cleanup last;
	/* wall time of cleanups and page faults since the shim woke up, in % */
	double budget_used_pct;
	/* MT_BUDGET_PCT; 0: cleanups are not limited by it, or not yet */
	uint64_t budget_pct;
	const struct mt_top_history *history; /* never NULL */
	const struct mt_top_marks *marks;     /* NULL: its file was never read */
};

/* Identifies a process, also if its pid is used again. */
struct mt_top_id {
	pid_t pid;
	uint64_t start_ticks;
};

struct mt_top_id mt_top_row_id(const struct mt_top_row *row);
bool mt_top_id_same(struct mt_top_id a, struct mt_top_id b);

/* Fills the row but for `last`, `budget_pct`, `history` and `marks`. */
void mt_top_row_fill(struct mt_top_row *row, const struct mt_process_list_entry *entry);

/* Returns the newest cleanup of a file that was not merged into another one. */
struct mt_top_cleanup mt_top_row_last_cleanup(const struct mt_stats_file *file);

/* Returns fragmented_bytes in % of resident_bytes; negative: nothing is known of the heap. */
double mt_top_sums_fragmented_percent(const struct mt_process_tree_sums *sums);

/* ---- columns ---- */

/* The table of columns: heading, width, content of a cell, sort order. The help, the sort menu and
 * --sort use it. Those of a sum are rows of MT_TREE_FIGURES (core/figures.def). */

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

/* Columns that the list has only for processes with a rank, or with a GPU. */
struct mt_top_optional {
	bool ranks, gpu;
};

/* The position of each column; width 0: it is left out. */
struct mt_top_layout {
	int start[MT_COLUMNS_COUNT], width[MT_COLUMNS_COUNT];
};
void mt_top_layout_make(struct mt_top_optional optional, int columns, struct mt_top_layout *out);

/* Returns a cell as text with its style; "" for PARTS, TREND and COMMAND, which
 * list.c draws. */
struct mt_top_cell_text {
	struct mt_short_text text;
	enum mt_cell_style style;
};
struct mt_top_cell_text mt_top_column_cell(enum mt_top_column column,
					   const struct mt_top_shown *shown, uint64_t now_ns);

/* ---- small charts out of characters ---- */

/* Draws RSS over time, one character high, from at.column to at.end: between its least and its
 * most, at least 2 % of the most apart. Blank if nothing was known yet. */
void mt_top_draw_trend(struct mt_cells *canvas, struct mt_cell_place at,
		       const struct mt_top_history *history, uint64_t now_ns);

struct mt_top_part {
	uint64_t bytes;
	enum mt_cell_style style;
};

/* Draws "[||||||      1.2G/3.4G]" from at.column to at.end: the parts side by side, `total_bytes`
 *   is the whole width. `parts` ends with a part of MT_STYLE_PLAIN. */
struct mt_top_bar {
	const struct mt_top_part *parts;
	uint64_t total_bytes;
	const char *text;
};
void mt_top_draw_bar(struct mt_cells *canvas, struct mt_cell_place at,
		     const struct mt_top_bar *bar);

#endif
