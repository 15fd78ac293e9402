/* ctl/ui/top/app.h -- the whole view: its state, what keys do, and how it is drawn. It knows no
 * terminal: keys come as enum mt_top_key, frames go to a canvas. No function waits. For one thread.
 */
#ifndef MT_CTL_UI_TOP_APP_H
#define MT_CTL_UI_TOP_APP_H

#include "ctl/ui/top/action.h"
#include "ctl/ui/top/pane.h"
#include "ctl/ui/top/list.h"
#include "ctl/ui/top/page.h"
#include "ctl/ui/top/row.h"

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
