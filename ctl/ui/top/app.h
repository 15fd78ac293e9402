/* ctl/ui/top/app.h -- the view as a whole: what it knows, what keys do to it, what it looks like.
 * Knows no terminal: keys come as enum mt_top_key, frames go to a canvas. Nothing here waits. */
#ifndef MT_CTL_UI_TOP_APP_H
#define MT_CTL_UI_TOP_APP_H

#include "ctl/ui/top/action.h"
#include "ctl/ui/top/details.h"
#include "ctl/ui/top/keys.h"
#include "ctl/ui/top/list.h"
#include "ctl/ui/top/prompt.h"
#include "ctl/ui/top/watch.h"

enum mt_top_screen { MT_SCREEN_LIST, MT_SCREEN_DETAILS, MT_SCREEN_HELP, MT_SCREEN_SORT };

struct mt_top_app {
	struct mt_top_watch watch;
	struct mt_top_machine machine;
	struct mt_top_model model;
	struct mt_top_actions actions;
	struct mt_top_details details;
	struct mt_top_prompt prompt;
	enum mt_top_screen screen;
	struct mt_top_canvas canvas;

	size_t list_first, help_first;
	int page_rows;          /* how far Page Up and Page Down go */
	size_t sort_place;      /* the column on which the sort menu stands */
	struct mt_top_id heavy; /* whom the question is about */
	struct mt_process set;  /* whose setting is asked for */
	struct mt_top_outcome message;
	uint64_t message_until_ns; /* CLOCK_MONOTONIC */
	uint64_t now_ns;           /* CLOCK_REALTIME of the last look */
	uint64_t interval_ms;
	bool is_paused, is_over;
};

void mt_top_app_start(struct mt_top_app *app);
void mt_top_app_end(struct mt_top_app *app);

/* Looks at all processes again. */
void mt_top_app_look(struct mt_top_app *app);

/* Looks after what processes were asked for; true: something has changed. */
bool mt_top_app_poll(struct mt_top_app *app);

void mt_top_app_key(struct mt_top_app *app, int key);

/* app_draw.c: makes app->canvas again. */
void mt_top_app_draw(struct mt_top_app *app, int columns, int rows);
struct mt_top_sample mt_top_app_sample(const struct mt_top_app *app);

/* A line for the status row, as in printf. */
void mt_top_app_say(struct mt_top_app *app, enum mt_top_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
