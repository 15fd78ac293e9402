#include "ctl/output/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/output/error.h"
#include "ctl/output/text.h"

#define COLUMNS_MAX 20u
#define CELL_MAX    256u
#define SCREEN_MAX  10000u /* columns, rows */

struct mt_table {
	char sides[COLUMNS_MAX]; /* '<' or '>' */
	size_t columns_count, cells_count;
	int screen_columns; /* of what is printed; 0: no screen */
	char **cells;       /* row by row, the headings first */
};

void mt_table_add(struct mt_table *table, const char *text)
{
	table->cells = mt_error_make_room(table->cells, table->cells_count, sizeof(*table->cells));
	table->cells[table->cells_count++] = mt_error_check_memory(strdup(text));
}

void mt_table_addf(struct mt_table *table, const char *format, ...)
{
	char text[CELL_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	mt_table_add(table, text);
}

void mt_table_add_row(struct mt_table *table, ...)
{
	const char *text;
	va_list cells;

	va_start(cells, table);
	while ((text = va_arg(cells, const char *)))
		mt_table_add(table, text);
	va_end(cells);
}

void mt_table_add_bytes(struct mt_table *table, bool known, uint64_t bytes)
{
	mt_table_add(table, known ? mt_text_bytes(bytes).text : "-");
}

void mt_table_add_columns(struct mt_table *table, const char *columns)
{
	for (size_t length; *columns && table->columns_count < COLUMNS_MAX;
	     columns += length + (columns[length] == '|')) {
		length = strcspn(columns, "|");
		table->sides[table->columns_count++] = *columns;
		mt_table_addf(table, "%.*s", (int)length - 1, columns + 1);
	}
}

struct mt_table *mt_table_new(const char *columns)
{
	struct mt_table *table = mt_error_check_memory(calloc(1, sizeof(*table)));

	mt_table_add_columns(table, columns);
	return table;
}

/* A row that is wider than the screen goes on in the next line. */
static void write_row(const struct mt_table *table, size_t first, const int *widths, FILE *to)
{
	int at = 0;

	for (size_t i = 0; i < table->columns_count && first + i < table->cells_count; i++) {
		const char *cell = table->cells[first + i];
		bool is_left = table->sides[i] == '<', is_last = i + 1 == table->columns_count;
		int own = mt_text_columns(cell), width = is_left && is_last ? own : widths[i];
		bool breaks = i && table->screen_columns && at + 2 + width > table->screen_columns;

		fputs(!i ? "" : breaks ? "\n    " : "  ", to);
		at = breaks ? 4 + width : at + (i ? 2 : 0) + width;
		/* the last cell has no blanks behind it */
		fprintf(to, "%*s%s%*s", is_left ? 0 : width - own, "", cell,
			is_left ? width - own : 0, "");
	}
}

void mt_table_each_line(struct mt_table *table,
			void (*take)(void *data, size_t row, const char *line), void *data)
{
	int *widths = mt_error_check_memory(calloc(table->columns_count, sizeof(*widths)));

	for (size_t i = 0; i < table->cells_count; i++) {
		int own = mt_text_columns(table->cells[i]),
		    *width = &widths[i % table->columns_count];

		*width = own > *width ? own : *width;
	}
	for (size_t first = 0; first < table->cells_count; first += table->columns_count) {
		char *line = NULL;
		size_t bytes;
		FILE *to = mt_error_check_memory(open_memstream(&line, &bytes));

		write_row(table, first, widths, to);
		if (fclose(to) != 0)
			mt_error_check_memory(NULL);
		take(data, first / table->columns_count, line);
		free(line);
	}
	free(widths);
	mt_table_free(table);
}

static void print_line(void *data, size_t row, const char *line)
{
	(void)data;
	printf("%s%s%s\n", row ? "" : mt_table_colour(MT_COLOUR_HEAD), line,
	       row ? "" : mt_table_colour_end());
}

void mt_table_print(struct mt_table *table)
{
	int rows;

	if (isatty(STDOUT_FILENO)) /* a script reads a row as one line */
		mt_table_screen(&table->screen_columns, &rows);
	mt_table_each_line(table, print_line, NULL);
}

void mt_table_free(struct mt_table *table)
{
	for (size_t i = 0; i < table->cells_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

static bool wants_colour(void)
{
	static int wanted = -1;
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (wanted < 0)
		wanted = isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
			 !(term && strcmp(term, "dumb") == 0);
	return wanted;
}

const char *mt_table_colour(enum mt_colour colour)
{
	static const char *const sequences[MT_COLOUR_COUNT] = {"\033[32m", "\033[36m", "\033[33m",
							       "\033[1m"};

	return wants_colour() ? sequences[colour] : "";
}

const char *mt_table_colour_end(void)
{
	return wants_colour() ? "\033[0m" : "";
}

static int number_of(const char *name)
{
	const char *text = getenv(name);
	uint64_t number;

	return text && mt_text_parse_u64(text, &number) && number <= SCREEN_MAX ? (int)number : 0;
}

void mt_table_screen(int *out_columns, int *out_rows)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row) {
		*out_columns = number_of("COLUMNS");
		*out_rows = number_of("LINES");
		return;
	}
	*out_columns = size.ws_col;
	*out_rows = size.ws_row;
}
