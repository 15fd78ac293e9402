/* ctl/ui/top/top.c -- `mtctl top`: the command line, and the loop of updates, frames and keys. */
#include "ctl/ui/top/top.h"

#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/command.h"
#include "ctl/process/stats_dir.h"
#include "ctl/ui/top/app.h"
#include "ctl/ui/top/help.h"
#include "ctl/ui/top/screen.h"

#define INTERVAL_MIN_SECONDS 0.1
/* while a request is under way */
#define POLL_NS      (50 * UINT64_C(1000000))
#define ONCE_COLUMNS 160
#define HELP_COLUMNS 100

static const char help[] = "All shimmed processes of yours (for root: of everybody), as a tree, "
			   "again and again. ? shows the keys.\n\n"
			   "  --interval=DURATION  time between two updates (2s; from 100ms)\n"
			   "  --sort=COLUMN       sort by a column of the list below (rss)\n"
			   "  --filter=TEXT       only those with TEXT in their command or PID\n"
			   "  --flat              no tree\n"
			   "  --once              prints one frame as plain text, as wide as the "
			   "terminal or COLUMNS says (160), and "
			   "ends\n\n";

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

static bool locale_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* ---- the loop ---- */

/* Returns false where the terminal is gone. */
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

	mt_top_screen_size(&columns, &rows);
	mt_top_app_draw(app, columns, rows);
	mt_top_screen_show(&app->canvas);
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
			mt_top_screen_redraw();
		}
		show(app);
		if (!wait_for_key(time_to_wait(app, next_ns, mt_clock_now_ns()), waiting))
			return;
		while ((key = mt_top_screen_key()) != MT_KEY_NONE && !app->is_over)
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
	if (mt_top_screen_start(&why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_USAGE;
	}
	app->canvas.unicode = locale_is_utf8();
	app->canvas.coloured = mt_top_screen_has_colours();
	loop(app, &waiting);
	mt_top_screen_end();
	return MT_EXIT_OK;
}

/* ---- --once ---- */

static int once_columns(void)
{
	const char *named = getenv("COLUMNS");
	struct winsize size = {0};
	uint64_t columns;

	if (named && mt_text_parse_u64(named, &columns) && columns >= MT_TOP_COLUMNS_MIN &&
	    columns <= 1000)
		return (int)columns;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= MT_TOP_COLUMNS_MIN)
		return size.ws_col;
	return ONCE_COLUMNS;
}

static int print_once(struct mt_top_app *app)
{
	struct mt_top_frame frame;
	char line[8192];
	int last;

	app->canvas.unicode = locale_is_utf8();
	mt_top_app_update(app);
	frame = mt_top_app_frame(app);
	mt_top_draw_once(&app->canvas, &frame, once_columns());
	last = app->canvas.rows - 1;
	for (; last > 0; last--) {
		mt_top_canvas_line(&app->canvas, last, line, sizeof(line));
		if (*line)
			break;
	}
	for (int row = 0; row <= last; row++) {
		mt_top_canvas_line(&app->canvas, row, line, sizeof(line));
		puts(line);
	}
	return MT_EXIT_OK;
}

/* ---- the command line ---- */

static void print_keys(void)
{
	struct mt_top_page page = {0};

	mt_top_help_fill(&page, HELP_COLUMNS);
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
	const struct mt_command_line line = {"top", help, print_keys, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	mt_stats_dir_sweep(NULL, 0);
	return once ? print_once(app) : run(app);
}

int mt_command_top(int argc, char **argv)
{
	struct mt_top_app app;
	int code;

	setlocale(LC_CTYPE, "");
	mt_top_app_start(&app);
	code = run_with(&app, argc, argv);
	mt_top_app_end(&app);
	return code;
}
