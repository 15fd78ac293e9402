/* ctl/ui/top/screen.c -- see screen.h. */
#include "ctl/ui/top/screen.h"

#include <ncurses.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/ui/top/keys.h"

/* wait for the rest of a key after Esc: enough for ssh */
#define ESCAPE_MS 100
#define RUN_MAX   512

struct appearance {
	short ink, paper; /* -1: the terminal's own */
	attr_t coloured, plain;
};

static const struct appearance appearances[MT_STYLES_COUNT] = {
	[MT_STYLE_PLAIN] = {-1, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_DIM] = {-1, -1, A_DIM, A_DIM},
	[MT_STYLE_BOLD] = {-1, -1, A_BOLD, A_BOLD},
	[MT_STYLE_TITLE] = {COLOR_WHITE, COLOR_BLUE, A_BOLD, A_REVERSE | A_BOLD},
	[MT_STYLE_HEADING] = {COLOR_BLACK, COLOR_GREEN, A_NORMAL, A_UNDERLINE},
	[MT_STYLE_SORTED] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE},
	[MT_STYLE_SELECTED] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE},
	[MT_STYLE_LABEL] = {COLOR_CYAN, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_KEY] = {COLOR_YELLOW, -1, A_BOLD, A_BOLD},
	[MT_STYLE_GOOD] = {COLOR_GREEN, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_WARN] = {COLOR_YELLOW, -1, A_BOLD, A_BOLD},
	[MT_STYLE_BAD] = {COLOR_RED, -1, A_BOLD, A_BOLD | A_UNDERLINE},
	[MT_STYLE_TREND] = {COLOR_CYAN, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_LIVE] = {COLOR_GREEN, -1, A_NORMAL, A_BOLD},
	[MT_STYLE_REUSABLE] = {COLOR_YELLOW, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_FILES] = {COLOR_BLUE, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_OTHER] = {COLOR_MAGENTA, -1, A_NORMAL, A_NORMAL},
	[MT_STYLE_REST] = {COLOR_WHITE, -1, A_DIM, A_DIM},
	[MT_STYLE_LIVE_REUSABLE] = {COLOR_GREEN, COLOR_YELLOW, A_NORMAL, A_NORMAL},
	[MT_STYLE_LIVE_FILES] = {COLOR_GREEN, COLOR_BLUE, A_NORMAL, A_NORMAL},
	[MT_STYLE_LIVE_OTHER] = {COLOR_GREEN, COLOR_MAGENTA, A_NORMAL, A_NORMAL},
	[MT_STYLE_REUSABLE_FILES] = {COLOR_YELLOW, COLOR_BLUE, A_NORMAL, A_NORMAL},
	[MT_STYLE_REUSABLE_OTHER] = {COLOR_YELLOW, COLOR_MAGENTA, A_NORMAL, A_NORMAL},
	[MT_STYLE_FILES_OTHER] = {COLOR_BLUE, COLOR_MAGENTA, A_NORMAL, A_NORMAL},
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
		init_pair((short)(i + 1), appearances[i].ink, appearances[i].paper);
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

enum mt_err mt_top_screen_start(struct mt_error_reason *why)
{
	const char *move;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return refuse(why, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return refuse(why, " that can move the cursor; nothing is known of TERM=");
	(void)atexit(mt_top_screen_end); /* out of memory ends the program anywhere */
	move = tigetstr("cup");
	if (!move || move == (char *)-1) {
		mt_top_screen_end();
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

void mt_top_screen_end(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

bool mt_top_screen_has_colours(void)
{
	return has_colour;
}

void mt_top_screen_size(int *columns, int *rows)
{
	getmaxyx(stdscr, *rows, *columns);
}

void mt_top_screen_redraw(void)
{
	clearok(curscr, TRUE);
}

static void use_style(enum mt_top_style style)
{
	if (has_colour)
		attr_set(appearances[style].coloured, (short)(style + 1), NULL);
	else
		attr_set(appearances[style].plain, 0, NULL);
}

/* Writes cells of one style together. */
static void show_row(const struct mt_top_canvas *canvas, int row)
{
	wchar_t run[RUN_MAX];
	int column = 0;

	while (column < canvas->columns) {
		enum mt_top_style style = mt_top_cell(canvas, row, column)->style;
		int length = 0;

		while (length < RUN_MAX && column + length < canvas->columns &&
		       mt_top_cell(canvas, row, column + length)->style == style) {
			run[length] = mt_top_cell(canvas, row, column + length)->glyph;
			length++;
		}
		use_style(style);
		mvaddnwstr(row, column, run, length);
		column += length;
	}
}

void mt_top_screen_show(const struct mt_top_canvas *canvas)
{
	erase();
	for (int row = 0; row < canvas->rows; row++)
		show_row(canvas, row);
	refresh();
}

int mt_top_screen_key(void)
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
