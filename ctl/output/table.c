/* ctl/output/table.c -- see table.h. */
#include "ctl/output/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/error.h"

struct mt_table {
	const char *columns;
	size_t columns_count, cells_count, cells_room;
	char **cells;
};

struct mt_table *mt_table_new(const char *columns)
{
	struct mt_table *table = mt_error_check_memory(calloc(1, sizeof(*table)));

	table->columns = columns;
	table->columns_count = strlen(columns);
	return table;
}

void mt_table_add(struct mt_table *table, const char *text)
{
	if (table->cells_count == table->cells_room) {
		table->cells_room = table->cells_room ? table->cells_room * 2 : 64;
		table->cells = mt_error_check_memory(
			realloc(table->cells, table->cells_room * sizeof(*table->cells)));
	}
	table->cells[table->cells_count++] = mt_error_check_memory(strdup(text));
}

static int width_of(const struct mt_table *table, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < table->cells_count; i += table->columns_count)
		if (strlen(table->cells[i]) > width)
			width = strlen(table->cells[i]);
	return (int)width;
}

static void print_row(const struct mt_table *table, size_t first, const int *widths)
{
	bool is_heading = first == 0;

	if (is_heading)
		fputs(mt_table_colour(MT_COLOUR_HEAD), stdout);
	for (size_t i = 0; i < table->columns_count && first + i < table->cells_count; i++) {
		const char *cell = table->cells[first + i];
		bool is_last = i + 1 == table->columns_count;

		if (table->columns[i] == 'r')
			printf("%*s", widths[i], cell);
		else if (is_last)
			fputs(cell, stdout); /* no blanks at the end of a line */
		else
			printf("%-*s", widths[i], cell);
		if (!is_last)
			fputs("  ", stdout);
	}
	if (is_heading)
		fputs(mt_table_colour_end(), stdout);
	putchar('\n');
}

void mt_table_print(struct mt_table *table)
{
	int *widths = mt_error_check_memory(calloc(table->columns_count, sizeof(*widths)));

	for (size_t i = 0; i < table->columns_count; i++)
		widths[i] = width_of(table, i);
	for (size_t first = 0; first < table->cells_count; first += table->columns_count)
		print_row(table, first, widths);
	for (size_t i = 0; i < table->cells_count; i++)
		free(table->cells[i]);
	free(widths);
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
