/* ctl/ui/top/app.c -- see top.h: the state, and what keys do. */
#include "ctl/ui/top/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/process/clock.h"

/* ---- watch ---- */

struct mt_top_tracked {
	struct mt_top_id id;
	bool was_read; /* the whole file was read at least once */
	/* of the head at the last reading of the whole file */
	uint64_t cleanups_count, requests_count;
	struct mt_top_cleanup last;
	uint64_t budget_pct;
	struct mt_top_history history;
	struct mt_top_marks marks;
};

static void free_tracked(struct mt_top_watch *watch)
{
	for (size_t i = 0; i < watch->tracked_count; i++)
		free(watch->tracked[i]);
	free(watch->tracked);
}

/* Takes an entry out of the old list, where NULL stays, or makes one. Both lists are sorted by pid.
 */
static struct mt_top_tracked *take_tracked(struct mt_top_watch *watch, struct mt_top_id id,
					   size_t *next)
{
	struct mt_top_tracked *tracked;

	while (*next < watch->tracked_count && watch->tracked[*next]->id.pid < id.pid)
		++*next;
	if (*next < watch->tracked_count && mt_top_id_same(watch->tracked[*next]->id, id)) {
		tracked = watch->tracked[*next];
		watch->tracked[(*next)++] = NULL;
		return tracked;
	}
	tracked = mt_error_check_memory(calloc(1, sizeof(*tracked)));
	tracked->id = id;
	return tracked;
}

static void read_file(struct mt_top_watch *watch, struct mt_top_tracked *tracked,
		      const struct mt_process *process, uint64_t now_ns)
{
	struct mt_stats_file *file = watch->file;
	struct mt_error_reason why;

	if (mt_target_read(process, file, &why) != MT_ERR_OK)
		return;
	if (!tracked->was_read)
		mt_top_history_seed(&tracked->history, file, now_ns);
	tracked->was_read = true;
	tracked->cleanups_count = file->head.cleanups_count;
	tracked->requests_count = file->head.snapshot.requests_count;
	tracked->last = mt_top_row_last_cleanup(file);
	mt_top_marks_read(&tracked->marks, file);
	tracked->budget_pct = mt_stats_file_number(file, "budget_pct");
}

static void fill_row(struct mt_top_watch *watch, struct mt_top_tracked *tracked,
		     const struct mt_process_list_entry *entry, struct mt_top_row *row)
{
	struct mt_top_point point;

	mt_top_row_fill(row, entry);
	row->last = tracked->last;
	if (entry->head.snapshot.uptime_ms >= MT_BUDGET_ADVANCE_MS)
		row->budget_pct = tracked->budget_pct;
	row->history = &tracked->history;
	row->marks = tracked->was_read ? &tracked->marks : NULL;
	point = (struct mt_top_point){watch->now_ns, row->own.rss_bytes, row->own.parts};
	mt_top_history_add(&tracked->history, &point);
}

/* Returns a new list by pid, which the caller frees. The histories and marks in it are valid until
 * the next call. */
static struct mt_top_row *top_watch_read(struct mt_top_watch *watch, uint64_t now_ns,
					 size_t *out_count)
{
	struct mt_process_list processes;
	struct mt_top_row *rows;
	struct mt_top_tracked **tracked;
	size_t next = 0;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
	rows = mt_error_check_memory(calloc(processes.count + 1, sizeof(*rows)));
	tracked =
		mt_error_check_memory(calloc(processes.count + 1, sizeof(struct mt_top_tracked *)));
	watch->now_ns = now_ns;
	watch->gpus = (struct mt_top_gpus){0};
	for (size_t i = 0; i < processes.count; i++) {
		const struct mt_process *process = &processes.list[i].process;
		const struct mt_stats_head *head = &processes.list[i].head;

		tracked[i] = take_tracked(
			watch, (struct mt_top_id){process->pid, process->start_ticks}, &next);
		/* settings change only by requests */
		if (processes.list[i].state == MT_PROCESS_AWAKE &&
		    (!tracked[i]->was_read || head->cleanups_count != tracked[i]->cleanups_count ||
		     head->snapshot.requests_count != tracked[i]->requests_count))
			read_file(watch, tracked[i], process, now_ns);
		fill_row(watch, tracked[i], &processes.list[i], &rows[i]);
		if (processes.list[i].devices)
			mt_top_gpus_add(&watch->gpus, processes.list[i].devices,
					processes.list[i].head.devices_count);
	}
	free_tracked(watch);
	watch->tracked = tracked;
	watch->tracked_count = *out_count = processes.count;
	mt_process_list_free(&processes);
	return rows;
}

#define MESSAGE_NS (30 * UINT64_C(1000000000))

void mt_top_app_start(struct mt_top_app *app)
{
	*app = (struct mt_top_app){.interval_ms = 2000, .page_rows = 10};
	app->watch = (struct mt_top_watch){0};
	app->watch.file = mt_error_check_memory(malloc(sizeof(*app->watch.file)));
	mt_top_model_start(&app->model);
	mt_top_actions_start(&app->actions);
}

void mt_top_app_end(struct mt_top_app *app)
{
	mt_top_actions_end(&app->actions);
	mt_top_model_end(&app->model);
	free_tracked(&app->watch);
	free(app->watch.file);
	app->watch = (struct mt_top_watch){0};
	mt_cells_free(&app->canvas);
	free(app->details.file);
}

/* Shows a line in the status row for 30 s, in the format of printf. */
__attribute__((format(printf, 3, 4))) static void
show(struct mt_top_app *app, enum mt_cell_style style, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(app->message.text, sizeof(app->message.text), format, arguments);
	va_end(arguments);
	app->message.style = style;
	app->message_until_ns = mt_clock_now_ns() + MESSAGE_NS;
}

/* ---- updates ---- */

static void update_details(struct mt_top_app *app)
{
	const struct mt_top_row *row =
		mt_top_model_find(&app->model, mt_top_row_id(&app->details.row));

	app->details.has_ended = !row;
	if (!row)
		return;
	app->details.row = *row;
	mt_top_details_read(&app->details);
}

void mt_top_app_update(struct mt_top_app *app)
{
	const struct mt_top_row *selected = mt_top_model_selected(&app->model);
	struct mt_process before = selected ? selected->process : (struct mt_process){0};
	struct mt_top_row *rows;
	size_t count;

	app->now_ns = mt_clock_realtime_ns();
	mt_top_machine_read("", &app->machine);
	rows = top_watch_read(&app->watch, app->now_ns, &count);
	if (mt_top_model_set_rows(&app->model, rows, count))
		show(app, MT_STYLE_WARN, "%d %s has ended", (int)before.pid, before.comm);
	if (app->screen == MT_SCREEN_DETAILS)
		update_details(app);
}

bool mt_top_app_poll(struct mt_top_app *app)
{
	struct mt_top_outcome outcome;

	if (!mt_top_actions_poll(&app->actions, &outcome))
		return false;
	show(app, outcome.style, "%s", outcome.text);
	if (!app->is_paused)
		mt_top_app_update(app);
	return true;
}

/* ---- requests ---- */

/* The process that keys refer to; NULL: none. */
static const struct mt_top_row *target_row(struct mt_top_app *app)
{
	if (app->screen != MT_SCREEN_DETAILS)
		return mt_top_model_selected(&app->model);
	if (app->details.has_ended)
		show(app, MT_STYLE_WARN, "%d has ended", (int)app->details.row.process.pid);
	return app->details.has_ended ? NULL : &app->details.row;
}

static void send_request(struct mt_top_app *app, const struct mt_process *process,
			 const struct mt_request *request)
{
	struct mt_error_reason why;

	if (!mt_top_actions_send(&app->actions, process, request, &why))
		show(app, MT_STYLE_WARN, "%s", why.text);
	else if (request->kind == MT_REQUEST_TRIM)
		show(app, MT_STYLE_PLAIN, "%d %s: %s cleanup ...", (int)process->pid, process->comm,
		     mt_stats_word_level(request->level));
	else
		show(app, MT_STYLE_PLAIN, "%d %s: %s=%s ...", (int)process->pid, process->comm,
		     request->name, request->value);
}

static void request_cleanup(struct mt_top_app *app, const struct mt_top_row *row, uint32_t level)
{
	const struct mt_request request = {.kind = MT_REQUEST_TRIM, .level = level};

	send_request(app, &row->process, &request);
}

static void open_prompt(struct mt_top_app *app, enum mt_top_prompt_kind kind)
{
	const struct mt_top_row *row = kind == MT_PROMPT_FILTER ? NULL : target_row(app);

	if (kind != MT_PROMPT_FILTER && !row)
		return;
	app->prompt = (struct mt_top_prompt){.kind = kind};
	if (kind == MT_PROMPT_FILTER) {
		snprintf(app->prompt.label, sizeof(app->prompt.label), "Filter: ");
		snprintf(app->prompt.text, sizeof(app->prompt.text), "%s", app->model.filter);
	} else if (kind == MT_PROMPT_SET) {
		app->set = row->process;
		snprintf(app->prompt.label, sizeof(app->prompt.label),
			 "%d NAME=VALUE: ", (int)row->process.pid);
	} else {
		app->heavy = mt_top_row_id(row);
		snprintf(app->prompt.label, sizeof(app->prompt.label),
			 "Heavy cleanup of %d %s? (y/n) ", (int)row->process.pid,
			 row->process.comm);
	}
}

static void accept_prompt(struct mt_top_app *app)
{
	const struct mt_top_row *row;
	struct mt_request request;
	struct mt_error_reason why;

	if (app->prompt.kind == MT_PROMPT_HEAVY) {
		row = mt_top_model_find(&app->model, app->heavy);
		if (row)
			request_cleanup(app, row, MT_LEVEL_HEAVY);
	} else if (app->prompt.kind == MT_PROMPT_SET && *app->prompt.text) {
		if (mt_set_request_parse(app->prompt.text, &request, &why) == MT_ERR_OK)
			send_request(app, &app->set, &request);
		else
			show(app, MT_STYLE_BAD, "%s", why.text);
	}
}

static void filter_by(struct mt_top_app *app, const char *text)
{
	snprintf(app->model.filter, sizeof(app->model.filter), "%.63s", text);
	mt_top_model_arrange(&app->model);
}

/* The list is filtered while the filter is typed. */
static void prompt_key(struct mt_top_app *app, int key)
{
	size_t room = app->prompt.kind == MT_PROMPT_FILTER ? sizeof(app->model.filter)
							   : sizeof(app->prompt.text);
	enum mt_top_prompt_event answer = mt_top_prompt_key(&app->prompt, key, room);

	if (app->prompt.kind == MT_PROMPT_FILTER && answer != MT_PROMPT_UNCHANGED)
		filter_by(app, answer == MT_PROMPT_CANCELLED ? "" : app->prompt.text);
	if (answer == MT_PROMPT_ACCEPTED)
		accept_prompt(app);
	if (answer == MT_PROMPT_ACCEPTED || answer == MT_PROMPT_CANCELLED)
		app->prompt.kind = MT_PROMPT_NONE;
}

/* ---- keys ---- */

/* Lines that a key moves by; 0: it is not a movement. */
static long step_of(const struct mt_top_app *app, int key)
{
	switch (key) {
	case MT_KEY_UP:
	case 'k':
		return -1;
	case MT_KEY_DOWN:
	case 'j':
		return 1;
	case MT_KEY_PAGE_UP:
		return -app->page_rows;
	case MT_KEY_PAGE_DOWN:
		return app->page_rows;
	case MT_KEY_HOME:
		return -1000000000;
	case MT_KEY_END:
		return 1000000000;
	default:
		return 0;
	}
}

static void scroll(size_t *first, long step)
{
	*first = step < 0 && (size_t)-step > *first ? 0 : *first + (size_t)step;
}

static void open_details(struct mt_top_app *app)
{
	const struct mt_top_row *row = mt_top_model_selected(&app->model);

	if (!row)
		return;
	app->details.row = *row;
	app->details.has_ended = app->details.is_known = false;
	app->details.first = 0;
	mt_top_details_read(&app->details);
	app->screen = MT_SCREEN_DETAILS;
}

/* Takes the next longer or shorter interval. */
static void change_interval(struct mt_top_app *app, bool is_longer)
{
	static const uint64_t steps_ms[] = {100,   200,   500,   1000,   2000,   5000,
					    10000, 30000, 60000, 300000, 600000, 3600000};
	const size_t count = sizeof(steps_ms) / sizeof(steps_ms[0]);
	size_t index = 0;

	while (index + 1 < count && (is_longer ? steps_ms[index] <= app->interval_ms
					       : steps_ms[index + 1] < app->interval_ms))
		index++;
	app->interval_ms = steps_ms[index];
	show(app, MT_STYLE_PLAIN, "every %.1f s", (double)app->interval_ms / 1000);
}

/* Keys for one process, in the list and in the details. */
static bool target_key(struct mt_top_app *app, int key)
{
	const struct mt_top_row *row;

	switch (key) {
	case 'l':
		row = target_row(app);
		if (row)
			request_cleanup(app, row, MT_LEVEL_LIGHT);
		return true;
	case 'h':
	case 'c':
		open_prompt(app, MT_PROMPT_HEAVY);
		return true;
	case 's':
		open_prompt(app, MT_PROMPT_SET);
		return true;
	default:
		return false;
	}
}

static bool common_key(struct mt_top_app *app, int key)
{
	switch (key) {
	case ' ':
		app->is_paused = !app->is_paused;
		return true;
	case '+':
	case '-':
		change_interval(app, key == '+');
		return true;
	case '?':
		app->help_first = 0;
		app->screen = MT_SCREEN_HELP;
		return true;
	default:
		return false;
	}
}

static bool sort_key(struct mt_top_app *app, int key)
{
	static const char letters[] = "PRLUFGABTN";
	static const enum mt_top_column columns[] = {MT_COLUMN_PID,   MT_COLUMN_rss_bytes,
						     MT_COLUMN_LIVE,  MT_COLUMN_REUSABLE,
						     MT_COLUMN_FRAG,  MT_COLUMN_gpu_reserved_bytes,
						     MT_COLUMN_AGO,   MT_COLUMN_BUDGET,
						     MT_COLUMN_TREND, MT_COLUMN_COMMAND};
	const char *found = key > 0 && key < 0x7f ? strchr(letters, key) : NULL;

	if (found)
		mt_top_model_sort(&app->model, columns[found - letters]);
	return found != NULL;
}

static void shape_key(struct mt_top_app *app, int key)
{
	switch (key) {
	case MT_KEY_LEFT:
		mt_top_model_fold(&app->model);
		break;
	case MT_KEY_RIGHT:
		mt_top_model_unfold(&app->model);
		break;
	case 'f':
		mt_top_model_fold_toggle(&app->model);
		break;
	case 'z':
		mt_top_model_fold_all(&app->model);
		break;
	case 'p':
		app->has_no_pane = !app->has_no_pane;
		break;
	case 't':
		app->model.is_flat = !app->model.is_flat;
		mt_top_model_arrange(&app->model);
		break;
	case MT_KEY_ESCAPE:
		filter_by(app, "");
		break;
	default:
		break;
	}
}

static void list_key(struct mt_top_app *app, int key)
{
	long step = step_of(app, key);

	if (step)
		mt_top_model_move(&app->model, step);
	else if (key == 'q')
		app->is_over = true;
	else if (key == '/')
		open_prompt(app, MT_PROMPT_FILTER);
	else if (key == MT_KEY_ENTER)
		open_details(app);
	else if (key == 'o') {
		app->sort_index = app->model.sort;
		app->screen = MT_SCREEN_SORT;
	} else if (!target_key(app, key) && !common_key(app, key) && !sort_key(app, key))
		shape_key(app, key);
}

static void details_key(struct mt_top_app *app, int key)
{
	struct mt_top_details *details = &app->details;
	enum mt_top_tab before = details->tab;
	long step = step_of(app, key);

	if (step)
		scroll(&details->first, step);
	else if (key == 'q' || key == MT_KEY_ESCAPE || key == MT_KEY_ENTER ||
		 key == MT_KEY_BACKSPACE)
		app->screen = MT_SCREEN_LIST;
	else if (key == '\t' || key == MT_KEY_RIGHT)
		details->tab = (enum mt_top_tab)((details->tab + 1) % MT_TABS_COUNT);
	else if (key == MT_KEY_LEFT)
		details->tab =
			(enum mt_top_tab)((details->tab + MT_TABS_COUNT - 1) % MT_TABS_COUNT);
	else if (key >= '1' && key < '1' + MT_TABS_COUNT)
		details->tab = (enum mt_top_tab)(key - '1');
	else if (!target_key(app, key))
		common_key(app, key);
	if (details->tab != before)
		details->first = 0;
}

static void help_key(struct mt_top_app *app, int key)
{
	long step = step_of(app, key);

	if (step)
		scroll(&app->help_first, step);
	else
		app->screen = MT_SCREEN_LIST;
}

static void sort_menu_key(struct mt_top_app *app, int key)
{
	long step = step_of(app, key), index = (long)app->sort_index + step;

	if (step) {
		app->sort_index = index < 0                   ? 0
				  : index >= MT_COLUMNS_COUNT ? MT_COLUMNS_COUNT - 1
							      : (size_t)index;
		return;
	}
	if (key == MT_KEY_ENTER)
		mt_top_model_sort(&app->model, (enum mt_top_column)app->sort_index);
	app->screen = MT_SCREEN_LIST;
}

void mt_top_app_key(struct mt_top_app *app, int key)
{
	static void (*const screens[])(struct mt_top_app *,
				       int) = {[MT_SCREEN_LIST] = list_key,
					       [MT_SCREEN_DETAILS] = details_key,
					       [MT_SCREEN_HELP] = help_key,
					       [MT_SCREEN_SORT] = sort_menu_key};

	if (key == MT_KEY_NONE || key == MT_KEY_RESIZE)
		return;
	if (app->prompt.kind != MT_PROMPT_NONE)
		prompt_key(app, key);
	else
		screens[app->screen](app, key);
}

/* ---- app draw ---- */

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
	struct mt_cell_place at = {row, 0, 0};

	for (const struct hint *hint = all[app->screen]; hint->key; hint++) {
		at.column = mt_cells_put(canvas, at, MT_STYLE_KEY, hint->key);
		at.column = mt_cells_put(canvas, at, MT_STYLE_SORTED, hint->meaning) + 1;
	}
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
		mt_top_pane_draw(canvas, (struct mt_top_area){area.end, end}, selected,
				 app->now_ns);
	}
	end = area.end;
	app->page_rows = end - area.row - 1 > 1 ? end - area.row - 1 : 1;
	mt_top_draw_list(canvas, &frame, area, &app->list_first);
}

static void draw_help(struct mt_top_app *app, struct mt_cells *canvas, int end)
{
	struct mt_top_page page = {.columns = canvas->columns - 1};

	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, " mtctl top: help");
	mt_top_help_fill(&page);
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
