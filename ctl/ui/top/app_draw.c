/* ctl/ui/top/app_draw.c -- draws a whole frame. */
#include <stdio.h>

#include "ctl/process/clock.h"
#include "ctl/ui/top/app.h"
#include "ctl/ui/top/page.h"
#include "ctl/ui/top/pane.h"

/* from this many rows on, status and keys have a row each */
#define STATUS_ROWS_FROM 12

struct mt_top_frame mt_top_app_frame(const struct mt_top_app *app)
{
	return (struct mt_top_frame){.model = &app->model,
				     .machine = &app->machine,
				     .gpus = &app->watch.gpus,
				     .now_ns = app->now_ns,
				     .interval_ms = app->interval_ms,
				     .is_paused = app->is_paused};
}

/* ---- the rows at the bottom ---- */

struct hint {
	const char *key, *meaning;
};

static void draw_hints(struct mt_cells *canvas, const struct hint *hints, int row)
{
	struct mt_cell_place at = {row, 0, 0};

	for (; hints->key; hints++) {
		at.column = mt_cells_put(canvas, at, MT_STYLE_KEY, hints->key);
		at.column = mt_cells_put(canvas, at, MT_STYLE_SORTED, hints->meaning) + 1;
	}
}

static void draw_keys(const struct mt_top_app *app, struct mt_cells *canvas, int row)
{
	static const struct hint list[] = {
		{"?", "Help"},        {"/", "Filter"},    {"o", "Sort"}, {"t", "Tree"},
		{"l", "Light"},       {"h", "Heavy"},     {"s", "Set"},  {"p", "Pane"},
		{"Enter", "Details"}, {"Space", "Pause"}, {"q", "Quit"}, {NULL, NULL}};
	static const struct hint details[] = {
		{"q", "Back"},  {"1-4 Tab", "Tabs"}, {"Up Down", "Scroll"}, {"l", "Light"},
		{"h", "Heavy"}, {"s", "Set"},        {"Space", "Pause"},    {NULL, NULL}};
	static const struct hint sort[] = {{"Enter", "Sort by it"}, {"Esc", "Back"}, {NULL, NULL}};
	static const struct hint help[] = {
		{"Up Down", "Scroll"}, {"any other key", "Back"}, {NULL, NULL}};
	static const struct hint *const all[] = {[MT_SCREEN_LIST] = list,
						 [MT_SCREEN_DETAILS] = details,
						 [MT_SCREEN_SORT] = sort,
						 [MT_SCREEN_HELP] = help};

	draw_hints(canvas, all[app->screen], row);
}

/* Prompt, message, or the whole command line of the selected process. Returns false for the latter.
 */
static bool draw_status(const struct mt_top_app *app, struct mt_cells *canvas, int row)
{
	const struct mt_top_row *selected = mt_top_model_selected(&app->model);
	const struct mt_cell_place at = {row, 0, 0};

	if (app->prompt.kind != MT_PROMPT_NONE) {
		mt_top_prompt_draw(&app->prompt, canvas, row);
		return true;
	}
	if (*app->message.text && mt_clock_now_ns() < app->message_until_ns) {
		mt_cells_put(canvas, at, app->message.style, app->message.text);
		return true;
	}
	if (app->screen == MT_SCREEN_LIST && selected)
		mt_cells_put(canvas, at,
			     selected->state >= MT_PROCESS_REFUSED ? MT_STYLE_BAD : MT_STYLE_DIM,
			     selected->state >= MT_PROCESS_REFUSED ? selected->why.text
								   : selected->process.command);
	return false;
}

/* Returns the first row of the bottom. */
static int draw_bottom(const struct mt_top_app *app, struct mt_cells *canvas)
{
	int last = canvas->rows - 1;

	if (canvas->rows >= STATUS_ROWS_FROM) {
		draw_status(app, canvas, last - 1);
		draw_keys(app, canvas, last);
		return last - 1;
	}
	if (!draw_status(app, canvas, last)) {
		for (int column = 0; column < canvas->columns; column++)
			mt_cells_put_glyph(canvas, (struct mt_cell_place){last, column, 0},
					   MT_STYLE_PLAIN, L' ');
		draw_keys(app, canvas, last);
	}
	return last;
}

/* ---- the screens ---- */

static void draw_list(struct mt_top_app *app, struct mt_cells *canvas, int end)
{
	const struct mt_top_frame frame = mt_top_app_frame(app);
	const struct mt_top_row *selected =
		app->has_no_pane ? NULL : mt_top_model_selected(&app->model);
	struct mt_top_area area = {0, end};
	int most = canvas->rows / 4, pane;

	area.row = mt_top_draw_header(canvas, &frame, most < 3 ? 3 : most);
	if (selected) {
		pane = mt_top_pane_rows(canvas->rows,
					end - area.row - 1 - (int)app->model.lines_count);
		area.end -= pane;
		mt_top_pane_draw(canvas, (struct mt_top_pane_area){area.end, end}, selected,
				 app->now_ns);
	}
	end = area.end;
	app->page_rows = end - area.row - 1 > 1 ? end - area.row - 1 : 1;
	mt_top_draw_list(canvas, &frame, area, &app->list_first);
}

static void draw_help(struct mt_top_app *app, struct mt_cells *canvas, int end)
{
	struct mt_top_page page = {0};

	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, " mtctl top: help");
	mt_top_help_fill(&page, canvas->columns);
	app->page_rows = end - 2 > 1 ? end - 2 : 1;
	mt_top_page_draw(&page, canvas, (struct mt_cell_place){1, 0, end}, &app->help_first);
	mt_top_page_free(&page);
}

static void draw_sort(struct mt_top_app *app, struct mt_cells *canvas, int end)
{
	int height = end - 1, first = (int)app->sort_index - height + 1;
	char text[320];

	first = first > 0 ? first : 0;
	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE,
		     " Sort by (the same again: the other way round)");
	for (int i = first; i < MT_COLUMNS_COUNT && i - first < height; i++) {
		const struct mt_top_column_info *column = mt_top_column((enum mt_top_column)i);

		snprintf(text, sizeof(text), " %s %-8s %s", i == (int)app->model.sort ? "*" : " ",
			 column->heading, column->help);
		mt_cells_put(canvas, (struct mt_cell_place){1 + i - first, 0, 0}, MT_STYLE_PLAIN,
			     text);
		if (i == (int)app->sort_index)
			mt_cells_paint_row(canvas, 1 + i - first, MT_STYLE_SELECTED);
	}
}

static void draw_details(struct mt_top_app *app, struct mt_cells *canvas, int end)
{
	app->page_rows = end - 3 > 1 ? end - 3 : 1;
	mt_top_details_draw(&app->details, canvas, end, app->now_ns);
}

typedef void (*draw_screen)(struct mt_top_app *app, struct mt_cells *canvas, int end);

void mt_top_app_draw(struct mt_top_app *app, int columns, int rows)
{
	static const draw_screen screens[] = {[MT_SCREEN_LIST] = draw_list,
					      [MT_SCREEN_DETAILS] = draw_details,
					      [MT_SCREEN_HELP] = draw_help,
					      [MT_SCREEN_SORT] = draw_sort};
	char text[64];

	mt_cells_start(&app->canvas, columns, rows);
	if (columns < MT_TOP_COLUMNS_MIN || rows < MT_TOP_ROWS_MIN) {
		snprintf(text, sizeof(text), "%dx%d: too small, %dx%d is needed", columns, rows,
			 MT_TOP_COLUMNS_MIN, MT_TOP_ROWS_MIN);
		mt_cells_put(&app->canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_WARN, text);
		return;
	}
	screens[app->screen](app, &app->canvas, draw_bottom(app, &app->canvas));
}
