/* ctl/ui/top/top.h -- the parts of the live view: a process as a row, pages of text, the list, the
 * pane, and what the keys do. */
#ifndef MT_CTL_UI_TOP_TOP_H
#define MT_CTL_UI_TOP_TOP_H

#include "core/stats_layout.h"
#include "ctl/channel/control_file.h"
#include "ctl/channel/process_list.h"
#include "ctl/figures/stats_file.h"
#include "ctl/metrics/series.h"
#include "ctl/output/cells.h"
#include "ctl/process/limit.h"

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

/* Adds the samples of the ring in a stats file that are up to 15 minutes older than `now_ns`.
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
 * cleanup that asked for it, as in its entry (ctl/figures/stats_file.h). */
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
	struct mt_process_tree_sums own, tree; /* tree: with its descendants */
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

/* Text that may be longer than the screen: the details of a process, the help.
 * Pure, but for memory. */

struct mt_table;

/* Rows of the canvas: from `row` to above `end`. */
struct mt_top_area {
	int row, end;
};

struct mt_top_page_line {
	char text[320];
	enum mt_cell_style style;
};

/* A line that is longer than `columns` is broken at blanks, and its rest indented by `indent`. */
struct mt_top_page {
	struct mt_top_page_line *lines;
	size_t count;
	int columns, indent;
};

void mt_top_page_add(struct mt_top_page *page, enum mt_cell_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds the lines of a table (ctl/output/table.h), and frees it. */
void mt_top_page_add_table(struct mt_top_page *page, struct mt_table *table);
void mt_top_page_free(struct mt_top_page *page);

/* Draws lines from *first on in the rows from from.row to before from.end. *first is lowered if
 * there are fewer lines. */
void mt_top_page_draw(const struct mt_top_page *page, struct mt_cells *canvas,
		      struct mt_cell_place from, size_t *first);

/* Appends the help to the page. */
void mt_top_help_fill(struct mt_top_page *page);

/* ---- prompt ---- */

/* The input line at the bottom: for a text, or for yes or no. Pure. */

enum mt_top_prompt_kind { MT_PROMPT_NONE, MT_PROMPT_FILTER, MT_PROMPT_SET, MT_PROMPT_HEAVY };

struct mt_top_prompt {
	enum mt_top_prompt_kind kind;
	char label[96];
	char text[160];
};

enum mt_top_prompt_event {
	MT_PROMPT_UNCHANGED,
	MT_PROMPT_EDITED,
	MT_PROMPT_ACCEPTED,
	MT_PROMPT_CANCELLED
};

/* Handles one key. A question (HEAVY) is accepted by y alone, and cancelled by any other key. A
 * text is accepted by Enter and cancelled by Esc. `room`: bytes of text that fit, with the NUL. */
enum mt_top_prompt_event mt_top_prompt_key(struct mt_top_prompt *prompt, int key, size_t room);

/* Draws label and text in the row. If they do not fit, the end of the text is visible. */
void mt_top_prompt_draw(const struct mt_top_prompt *prompt, struct mt_cells *canvas, int row);

/* ---- keys ---- */

/* Keys: characters as themselves, others by names of our own, so that only
 * main.c knows ncurses. The help is made from the table. */

#define MT_KEY_CONTROL(letter) ((letter)&0x1f)

enum mt_top_key {
	MT_KEY_NONE = -1,
	MT_KEY_ENTER = '\n',
	MT_KEY_ESCAPE = 0x1b,
	MT_KEY_UP = 0x100,
	MT_KEY_DOWN,
	MT_KEY_LEFT,
	MT_KEY_RIGHT,
	MT_KEY_PAGE_UP,
	MT_KEY_PAGE_DOWN,
	MT_KEY_HOME,
	MT_KEY_END,
	MT_KEY_BACKSPACE,
	MT_KEY_RESIZE
};

#define MT_TOP_KEYS(X)                                                                             \
	X("Up Down j k, PgUp PgDn, Home End", "select a process")                                  \
	X("Enter", "details of it: figures, rounds and cleanups, settings, devices")               \
	X("l", "light cleanup of it: gc and heap")                                                 \
	X("h c", "heavy cleanup of it: GPU caches too; asks first")                                \
	X("s", "change a live setting in it: NAME=VALUE")                                          \
	X("Left Right, f",                                                                         \
	  "fold what is below it, unfold it; its figures are then those of all of them")           \
	X("z", "fold all, unfold all")                                                             \
	X("t", "tree or flat")                                                                     \
	X("p", "hide the pane below the list, show it: the selected process over time")            \
	X("o", "choose the column to sort by")                                                     \
	X("P R L U F G A B T N",                                                                   \
	  "sort by PID, RSS, live, reusable, fragmentation, GPU, age of the last cleanup, "        \
	  "budget, trend, name; again: the other way round")                                       \
	X("/", "filter by command or PID; Esc takes it away")                                      \
	X("Space", "pause; again: go on")                                                          \
	X("+ -", "update less often, more often")                                                  \
	X("? q", "this help; quit (Ctrl-C too)")

/* The visible list: tree or flat, sorted, filtered, folded, and its selected
 * process. The selection follows its process; when that has ended, the process in its line is
 * selected. Pure. */

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

/* All data of a frame. */
struct mt_top_frame {
	const struct mt_top_model *model;
	const struct mt_top_machine *machine;
	const struct mt_top_gpus *gpus;
	uint64_t now_ns; /* CLOCK_REALTIME of the last update */
	uint64_t interval_ms;
	bool is_paused;
};

/* Puts a part's glyph, word and bytes: the legend of all bars, too. Returns the next column. */
int mt_top_put_part(struct mt_cells *canvas, struct mt_cell_place at,
		    const struct mt_process_tree_sums *sums, enum mt_memory_part part);

/* Draws 1 to `most` lines, and returns how many. */
int mt_top_draw_header(struct mt_cells *canvas, const struct mt_top_frame *frame, int most);

/* Draws the heading at area.row, and below it the list from line *first on. *first is moved so that
 * the selected line is visible. */
void mt_top_draw_list(struct mt_cells *canvas, const struct mt_top_frame *frame,
		      struct mt_top_area area, size_t *first);

/* The smallest size of a frame. */
#define MT_TOP_COLUMNS_MIN 40
#define MT_TOP_ROWS_MIN    8

/* Draws header, heading and all lines without a selection, `columns` wide and as long as needed.
 * Returns the rows that are in use. */
int mt_top_draw_once(struct mt_cells *canvas, const struct mt_top_frame *frame, int columns);

/* ---- machine ---- */

/* Memory, swap, nearest limit, stalls and GPUs of the machine, for the
 * header. */

struct mt_top_machine {
	uint64_t used_bytes, total_bytes; /* MemTotal - MemAvailable, MemTotal */
	uint64_t swap_used_bytes, swap_total_bytes;
	bool has_limit; /* top itself runs in a container with a limit */
	struct mt_limit limit;
	bool has_stalls;  /* the kernel has pressure stall information */
	double stall_pct; /* of the last 10 s, in which tasks waited for memory ("some") */
};

/* Reads all values. `root` is put before every path: "" but in tests. What cannot be read stays 0.
 */
void mt_top_machine_read(const char *root, struct mt_top_machine *out);

struct mt_top_gpu {
	char pci[32], name[64];
	uint64_t used_bytes, total_bytes; /* by all processes, as the driver reports */
};

struct mt_top_gpus {
	struct mt_top_gpu list[MT_DEVICES_COUNT];
	size_t count;
};

/* Adds the devices of a process, each PCI address once. Devices without known memory are left out.
 */
void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count);

/* The second pane: one process over time, with its figures. On a wide canvas
 * the figures stand beside the chart, otherwise in a line above it. Pure, but for memory and the
 * time zone. */

/* Returns the rows of the pane on a canvas of so many rows: two fifths of them, and further ones
 * that the list does not need (`spare_rows`), up to three fifths. 0 if there is no room for a
 * pane. */
int mt_top_pane_rows(int canvas_rows, int spare_rows);

/* Draws the process: a title, and below it the body. */
void mt_top_pane_draw(struct mt_cells *canvas, struct mt_top_area area,
		      const struct mt_top_row *process, uint64_t now_ns);

/* ---- details ---- */

/* The screen of one process, in tabs: figures, cleanups, settings, devices.
 * Pure but for mt_top_details_read. */

#define MT_TOP_TABS(X)                                                                             \
	X(FIGURES, "Figures")                                                                      \
	X(RECORDS, "Rounds, cleanups")                                                             \
	X(SETTINGS, "Settings")                                                                    \
	X(DEVICES, "Devices")

enum mt_top_tab {
#define X(id, title) MT_TAB_##id,
	MT_TOP_TABS(X) MT_TABS_COUNT
#undef X
};

struct mt_top_details {
	struct mt_top_row row; /* of the last update */
	bool has_ended;
	struct mt_stats_file *file; /* as it was last read */
	bool is_known;              /* *file has been read */
	struct mt_error_reason why; /* else: why not */
	enum mt_top_tab tab;
	size_t first; /* first visible line */
};

/* Reads the stats file of details->row again. If that fails, what was read before stays. */
void mt_top_details_read(struct mt_top_details *details);

/* Draws title, tabs and the selected tab in all rows of the canvas above `end`. */
void mt_top_details_draw(struct mt_top_details *details, struct mt_cells *canvas, int end,
			 uint64_t now_ns);

/* Requests of the view to processes, and their outcomes. No function waits:
 * a request is sent when its control file is free, and every call of mt_top_actions_poll takes it
 * further. A process has no more than one request at a time. For one thread. */

#define MT_TOP_ACTIONS_MAX 16

struct mt_top_action {
	bool is_pending;
	struct mt_control_call call;
	char before[72]; /* of a setting: its value before */
};

struct mt_top_actions {
	struct mt_top_action list[MT_TOP_ACTIONS_MAX];
	struct mt_stats_file *file; /* the last one that was read */
};

struct mt_top_outcome {
	char text[400];
	enum mt_cell_style style;
};

void mt_top_actions_start(struct mt_top_actions *actions);

/* Gives up every control file and frees. Requests that were sent may still be carried out. */
void mt_top_actions_end(struct mt_top_actions *actions);

/* Accepts a request, TRIM or SET. Returns false with the reason in *why if another one is under
 * way for the process, or MT_TOP_ACTIONS_MAX are under way. */
bool mt_top_actions_send(struct mt_top_actions *actions, const struct mt_process *process,
			 const struct mt_request *request, struct mt_error_reason *why);

bool mt_top_actions_pending(const struct mt_top_actions *actions);

/* Takes all requests further. Returns true if one of them is over, and *out says how. */
bool mt_top_actions_poll(struct mt_top_actions *actions, struct mt_top_outcome *out);

/* The whole view: its state, what keys do, and how it is drawn. It knows no
 * terminal: keys come as enum mt_top_key, frames go to a canvas. No function waits. For one thread.
 */

/* Reads all shimmed processes again and again, and keeps what a single reading does not have: the
 * history of each, its last cleanup, its budget. A stats file is read whole only if its head has
 * new counts: with 100 processes at rest, an update reads 100 heads. No process is woken. For one
 * thread. */

struct mt_top_tracked;

struct mt_top_watch {
	struct mt_top_tracked **tracked; /* by pid, one for each row of the last update */
	size_t tracked_count;
	struct mt_stats_file *file; /* buffer for one whole file */
	uint64_t now_ns;            /* of the last update, CLOCK_REALTIME */
	struct mt_top_gpus gpus;    /* of the last update */
};

enum mt_top_screen { MT_SCREEN_LIST, MT_SCREEN_DETAILS, MT_SCREEN_HELP, MT_SCREEN_SORT };

struct mt_top_app {
	struct mt_top_watch watch;
	struct mt_top_machine machine;
	struct mt_top_model model;
	struct mt_top_actions actions;
	struct mt_top_details details;
	struct mt_top_prompt prompt;
	enum mt_top_screen screen;
	struct mt_cells canvas;

	size_t list_first, help_first;
	int page_rows;          /* rows that Page Up and Page Down move */
	size_t sort_index;      /* the selected column of the sort menu */
	struct mt_top_id heavy; /* the process of the question for a heavy cleanup */
	struct mt_process set;  /* the process whose setting is typed */
	struct mt_top_outcome message;
	uint64_t message_until_ns; /* CLOCK_MONOTONIC */
	uint64_t now_ns;           /* CLOCK_REALTIME of the last update */
	uint64_t interval_ms;
	bool is_paused, is_over;
	bool has_no_pane; /* the user has hidden it */
};

void mt_top_app_start(struct mt_top_app *app);
void mt_top_app_end(struct mt_top_app *app);

/* Reads all processes again. */
void mt_top_app_update(struct mt_top_app *app);

/* Takes requests further. Returns true if something has changed. */
bool mt_top_app_poll(struct mt_top_app *app);

void mt_top_app_key(struct mt_top_app *app, int key);

/* Draws app->canvas again, in this size. */
void mt_top_app_draw(struct mt_top_app *app, int columns, int rows);
struct mt_top_frame mt_top_app_frame(const struct mt_top_app *app);

#endif
