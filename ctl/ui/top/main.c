/* ctl/ui/top/main.c -- the program of mtctl top. */
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/channel/stats_dir.h"
#include "ctl/command.h"
#include "ctl/output/error.h"
#include "ctl/output/table.h"
#include "ctl/process/clock.h"
#include "ctl/ui/top/top.h"

/* ---- screen ---- */

/* wait for the rest of a key after Esc: enough for ssh */
#define ESCAPE_MS 100
#define RUN_MAX   512

struct appearance {
	attr_t coloured, plain;
};

/* Beside the colours of mt_cells_colours. */
static const struct appearance appearances[MT_STYLES_COUNT] = {
	[MT_STYLE_DIM] = {A_DIM, A_DIM},
	[MT_STYLE_BOLD] = {A_BOLD, A_BOLD},
	[MT_STYLE_TITLE] = {A_BOLD, A_REVERSE | A_BOLD},
	[MT_STYLE_HEADING] = {A_NORMAL, A_UNDERLINE},
	[MT_STYLE_SORTED] = {A_NORMAL, A_REVERSE},
	[MT_STYLE_SELECTED] = {A_NORMAL, A_REVERSE},
	[MT_STYLE_KEY] = {A_BOLD, A_BOLD},
	[MT_STYLE_WARN] = {A_BOLD, A_BOLD},
	[MT_STYLE_BAD] = {A_BOLD, A_BOLD | A_UNDERLINE},
	[MT_STYLE_LIVE] = {A_NORMAL, A_BOLD},
	[MT_STYLE_REST] = {A_DIM, A_DIM},
};

static SCREEN *screen;
static bool has_colour;

static void start_colours(void)
{
	const char *no_color = getenv("NO_COLOR");

	if ((no_color && *no_color) || !has_colors() || start_color() != OK)
		return;
	use_default_colors();
	for (short i = 0; i < MT_STYLES_COUNT; i++)
		init_pair((short)(i + 1), (short)mt_cells_colours((enum mt_cell_style)i).ink,
			  (short)mt_cells_colours((enum mt_cell_style)i).paper);
	has_colour = true;
}

static enum mt_err refuse(struct mt_error_reason *why, const char *reason)
{
	const char *name = getenv("TERM");

	return mt_error_because(
		why, MT_ERR_NOT_AVAILABLE,
		"top needs a terminal%s%.39s; `mtctl ps` or `mtctl top --once` prints the list",
		reason, *reason && name ? name : "");
}

/* Restores the terminal. exit() does so, too. */
static void screen_end(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

/* Takes the terminal over. NOT_AVAILABLE: there is none, or it cannot move the cursor; *why says
 * which, and what to do instead. */
static enum mt_err screen_start(struct mt_error_reason *why)
{
	const char *move;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return refuse(why, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return refuse(why, " that can move the cursor; nothing is known of TERM=");
	(void)atexit(screen_end); /* out of memory ends the program anywhere */
	move = tigetstr("cup");
	if (!move || move == (char *)-1) {
		screen_end();
		return refuse(why, " that can move the cursor, which this one cannot: TERM=");
	}
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	start_colours();
	return MT_ERR_OK;
}

/* Writes cells of one style together. */
static void show_row(const struct mt_cells *canvas, int row)
{
	wchar_t run[RUN_MAX];
	int column = 0;

	while (column < canvas->columns) {
		enum mt_cell_style style = mt_cells_at(canvas, row, column)->style;
		int length = 0;

		while (length < RUN_MAX && column + length < canvas->columns &&
		       mt_cells_at(canvas, row, column + length)->style == style) {
			run[length] = mt_cells_at(canvas, row, column + length)->glyph;
			length++;
		}
		if (has_colour)
			attr_set(appearances[style].coloured, (short)(style + 1), NULL);
		else
			attr_set(appearances[style].plain, 0, NULL);
		mvaddnwstr(row, column, run, length);
		column += length;
	}
}

/* Returns the next key that was pressed; MT_KEY_NONE: none. Does not wait. */
static int screen_key(void)
{
	static const struct {
		int theirs, ours;
	} keys[] = {{'\r', MT_KEY_ENTER},
		    {KEY_ENTER, MT_KEY_ENTER},
		    {KEY_UP, MT_KEY_UP},
		    {KEY_DOWN, MT_KEY_DOWN},
		    {KEY_LEFT, MT_KEY_LEFT},
		    {KEY_RIGHT, MT_KEY_RIGHT},
		    {KEY_PPAGE, MT_KEY_PAGE_UP},
		    {KEY_NPAGE, MT_KEY_PAGE_DOWN},
		    {KEY_HOME, MT_KEY_HOME},
		    {KEY_END, MT_KEY_END},
		    {KEY_BACKSPACE, MT_KEY_BACKSPACE},
		    {0x7f, MT_KEY_BACKSPACE},
		    {'\b', MT_KEY_BACKSPACE},
		    {KEY_RESIZE, MT_KEY_RESIZE}};
	int key = getch();

	if (key == ERR)
		return MT_KEY_NONE;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].theirs == key)
			return keys[i].ours;
	return key < 0x80 ? key : MT_KEY_RESIZE; /* without meaning here */
}

/* ---- top ---- */

/* `mtctl top`: the command line, and the loop of updates, frames and keys. */

#define INTERVAL_MIN_SECONDS 0.1
/* while a request is under way */
#define POLL_NS          (50 * UINT64_C(1000000))
#define ONCE_COLUMNS     160
#define ONCE_COLUMNS_MAX 1000
#define HELP_COLUMNS     100

static volatile sig_atomic_t must_end, was_stopped;

static void on_signal(int number)
{
	if (number == SIGCONT)
		was_stopped = 1;
	else if (number != SIGWINCH)
		must_end = 1;
}

/* Signals are delivered only while ppoll waits, so that none is missed. Ignored ones (nohup) stay
 * ignored. SIGWINCH and SIGTSTP are handled by ncurses. */
static void catch_signals(sigset_t *out_waiting)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCONT};
	struct sigaction action = {.sa_handler = on_signal}, before;
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler == SIG_IGN)
			continue;
		sigaction(numbers[i], &action, NULL);
		sigaddset(&blocked, numbers[i]);
	}
	sigaddset(&blocked, SIGWINCH);
	sigprocmask(SIG_BLOCK, &blocked, out_waiting);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigdelset(out_waiting, numbers[i]);
	sigdelset(out_waiting, SIGWINCH);
}

/* ---- the loop ---- */

/* Returns false if the terminal is gone. */
static bool wait_for_key(uint64_t wait_ns, const sigset_t *waiting)
{
	struct pollfd terminal = {.fd = STDIN_FILENO, .events = POLLIN};
	const struct timespec timeout = {(time_t)(wait_ns / 1000000000u),
					 (long)(wait_ns % 1000000000u)};

	if (ppoll(&terminal, 1, &timeout, waiting) <= 0)
		return true;
	return !(terminal.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void show(struct mt_top_app *app)
{
	int columns, rows;

	getmaxyx(stdscr, rows, columns);
	mt_top_app_draw(app, columns, rows);
	erase();
	for (int row = 0; row < app->canvas.rows; row++)
		show_row(&app->canvas, row);
	refresh();
}

static uint64_t time_to_wait(const struct mt_top_app *app, uint64_t next_ns, uint64_t now_ns)
{
	uint64_t wait_ns = app->is_paused     ? UINT64_C(3600000000000)
			   : next_ns > now_ns ? next_ns - now_ns
					      : 0;

	return mt_top_actions_pending(&app->actions) && wait_ns > POLL_NS ? POLL_NS : wait_ns;
}

static void loop(struct mt_top_app *app, const sigset_t *waiting)
{
	uint64_t next_ns = 0, now_ns;
	int key;

	while (!app->is_over && !must_end) {
		now_ns = mt_clock_now_ns();
		if (!app->is_paused && now_ns >= next_ns) {
			mt_top_app_update(app);
			next_ns = mt_clock_now_ns() + app->interval_ms * 1000000u;
		}
		mt_top_app_poll(app);
		if (was_stopped) {
			was_stopped = 0;
			/* Draws all of the next frame, since another program has written to the
			 * terminal. */
			clearok(curscr, TRUE);
		}
		show(app);
		if (!wait_for_key(time_to_wait(app, next_ns, mt_clock_now_ns()), waiting))
			return;
		while ((key = screen_key()) != MT_KEY_NONE && !app->is_over)
			mt_top_app_key(app, key);
		/* A shorter interval takes effect at once. */
		if (next_ns > mt_clock_now_ns() + app->interval_ms * 1000000u)
			next_ns = mt_clock_now_ns() + app->interval_ms * 1000000u;
	}
}

static int run(struct mt_top_app *app)
{
	struct mt_error_reason why;
	sigset_t waiting;

	catch_signals(&waiting);
	if (screen_start(&why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	app->canvas.unicode = mt_text_locale_is_utf8();
	app->canvas.coloured = has_colour;
	loop(app, &waiting);
	screen_end();
	return MT_EXIT_OK;
}

/* ---- --once ---- */

static int print_once(struct mt_top_app *app)
{
	struct mt_top_frame frame;
	int columns, rows;

	mt_table_screen(&columns, &rows);
	if (columns < MT_TOP_COLUMNS_MIN || columns > ONCE_COLUMNS_MAX)
		columns = ONCE_COLUMNS;
	app->canvas.unicode = mt_text_locale_is_utf8();
	mt_top_app_update(app);
	frame = mt_top_app_frame(app);
	rows = mt_top_draw_once(&app->canvas, &frame, columns);
	for (int row = 0; row < rows; row++) {
		mt_cells_write_row(&app->canvas, row, stdout);
		putchar('\n');
	}
	return MT_EXIT_OK;
}

/* ---- the command line ---- */

static void print_keys(void)
{
	struct mt_top_page page = {.columns = HELP_COLUMNS - 1};

	mt_top_help_fill(&page);
	for (size_t i = 0; i < page.count; i++)
		puts(page.lines[i].text);
	mt_top_page_free(&page);
}

static bool take_sort(const struct mt_option *option, const char *name)
{
	const char *names[MT_COLUMNS_COUNT], *nearest;
	enum mt_top_column column = mt_top_column_find(name);

	for (int i = 0; i < MT_COLUMNS_COUNT; i++)
		names[i] = mt_top_column((enum mt_top_column)i)->name;
	if (column != MT_COLUMNS_COUNT) {
		*(enum mt_top_column *)option->target = column;
		return true;
	}
	nearest = mt_text_nearest(name, names, MT_COLUMNS_COUNT);
	mt_error_say("no column '%.40s'%s%s%s; `mtctl top --help` lists them", name,
		     nearest ? "; did you mean '" : "", nearest ? nearest : "",
		     nearest ? "'?" : "");
	return false;
}

static bool take_filter(const struct mt_option *option, const char *text)
{
	struct mt_top_app *app = option->target;

	snprintf(app->model.filter, sizeof(app->model.filter), "%s", text);
	return true;
}

static int run_with(struct mt_top_app *app, int argc, char **argv)
{
	bool once = false;
	const struct mt_option options[] = {
		{.name = "interval",
		 .target = &app->interval_ms,
		 .take = mt_option_ms,
		 .min = INTERVAL_MIN_SECONDS},
		{.name = "sort", .target = &app->model.sort, .take = take_sort},
		{.name = "filter", .target = app, .take = take_filter},
		{.name = "flat", .target = &app->model.is_flat},
		{.name = "once", .target = &once},
		{0}};
	const struct mt_command_line line = {"top", print_keys, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	mt_stats_dir_sweep(NULL, 0);
	return once ? print_once(app) : run(app);
}

static int mt_command_top(int argc, char **argv)
{
	struct mt_top_app app;
	int code;

	setlocale(LC_CTYPE, "");
	mt_top_app_start(&app);
	code = run_with(&app, argc, argv);
	mt_top_app_end(&app);
	return code;
}

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {{"top", mt_command_top}, {0}};

	return mt_subcommand_main(commands, argc, argv);
}
