/* ctl/ui/top/page.h -- text that may be longer than the screen: the details of a process, the help.
 * Pure, but for memory. */
#ifndef MT_CTL_UI_TOP_PAGE_H
#define MT_CTL_UI_TOP_PAGE_H

#include "ctl/output/cells.h"

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
	size_t count, room;
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

/* The meaning of keys, columns and colours, for the help screen and for `mtctl top --help`. */

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

#endif
