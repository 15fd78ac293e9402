/* ctl/output/chart.c -- see chart.h. */
#include "ctl/output/chart.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/output/error.h"
#include "ctl/output/table.h"

#define CELL_WIDTH  2
#define CELL_HEIGHT 4
#define BRAILLE     0x2800u
#define SIZE_MAX_   1000 /* columns and rows */

struct cell {
	unsigned char dots; /* as in U+2800 */
	unsigned char layers;
};

struct mt_chart {
	int columns, rows, dots_wide, dots_high;
	struct cell cells[];
};

struct mt_chart *mt_chart_new(int columns, int rows, bool is_utf8)
{
	size_t count = (size_t)columns * (size_t)rows;
	struct mt_chart *chart =
		mt_error_check_memory(calloc(1, sizeof(*chart) + count * sizeof(chart->cells[0])));

	chart->columns = columns;
	chart->rows = rows;
	chart->dots_wide = is_utf8 ? CELL_WIDTH : 1;
	chart->dots_high = is_utf8 ? CELL_HEIGHT : 1;
	return chart;
}

void mt_chart_free(struct mt_chart *chart)
{
	free(chart);
}

int mt_chart_width(const struct mt_chart *chart)
{
	return chart->columns * chart->dots_wide;
}

int mt_chart_height(const struct mt_chart *chart)
{
	return chart->rows * chart->dots_high;
}

static void set_dot(struct mt_chart *chart, enum mt_chart_layer layer, int x, int y)
{
	/* dots of a Braille pattern, from the top, left and right */
	static const unsigned char bits[CELL_HEIGHT][CELL_WIDTH] = {
		{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
	int from_top = mt_chart_height(chart) - 1 - y;
	struct cell *cell =
		&chart->cells[from_top / chart->dots_high * chart->columns + x / chart->dots_wide];

	cell->layers |= (unsigned char)(1u << layer);
	/* every other dot, so that it is told from the area */
	if (layer != MT_CHART_SECOND || (x + y) % 2 == 0)
		cell->dots |= bits[from_top % chart->dots_high][x % chart->dots_wide];
}

void mt_chart_fill(struct mt_chart *chart, enum mt_chart_layer layer, int column, int low, int high)
{
	if (column < 0 || column >= mt_chart_width(chart))
		return;
	low = low < 0 ? 0 : low;
	high = high > mt_chart_height(chart) ? mt_chart_height(chart) : high;
	for (int y = low; y < high; y++)
		set_dot(chart, layer, column, y);
}

/* The layer that a cell is shown as: the line before the areas. */
static enum mt_chart_layer layer_of(const struct cell *cell)
{
	for (int layer = MT_CHART_LAYERS; layer-- > 0;)
		if (cell->layers & 1u << layer)
			return (enum mt_chart_layer)layer;
	return MT_CHART_LAYERS;
}

static const char *colour_of(enum mt_chart_layer layer)
{
	return layer == MT_CHART_AREA     ? mt_table_colour(MT_COLOUR_NOTE)
	       : layer == MT_CHART_SECOND ? mt_table_colour(MT_COLOUR_WARN)
					  : "";
}

static void print_cell(const struct mt_chart *chart, const struct cell *cell)
{
	static const char ascii[] = "#:* ";
	unsigned point = BRAILLE + cell->dots;

	if (chart->dots_high == 1 || !cell->dots)
		putchar(cell->layers ? ascii[layer_of(cell)] : ' ');
	else
		printf("%c%c%c", 0xe0 | (int)(point >> 12), 0x80 | (int)(point >> 6 & 0x3f),
		       0x80 | (int)(point & 0x3f));
}

void mt_chart_print_row(const struct mt_chart *chart, int row)
{
	const struct cell *cells = &chart->cells[row * chart->columns];
	const char *colour = "";
	int count = chart->columns;

	while (count && !cells[count - 1].layers)
		count--;
	for (int i = 0; i < count; i++) {
		const char *wanted = colour_of(layer_of(&cells[i]));

		if (wanted != colour)
			printf("%s%s", *colour ? mt_table_colour_end() : "", wanted);
		colour = wanted;
		print_cell(chart, &cells[i]);
	}
	if (*colour)
		fputs(mt_table_colour_end(), stdout);
}

const char *mt_chart_swatch(enum mt_chart_layer layer, bool is_utf8)
{
	static const char *const swatches[MT_CHART_LAYERS][2] = {
		{"#", "\u28ff"}, {":", "\u2895"}, {"*", "\u2812"}};

	return swatches[layer][is_utf8];
}

bool mt_chart_is_utf8(void)
{
	setlocale(LC_CTYPE, "");
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);
	int value = text ? atoi(text) : 0;

	return value > 0 && value <= SIZE_MAX_ ? value : otherwise;
}

void mt_chart_screen(int *out_columns, int *out_rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
		*out_columns = size.ws_col < SIZE_MAX_ ? size.ws_col : SIZE_MAX_;
		*out_rows = size.ws_row < SIZE_MAX_ ? size.ws_row : SIZE_MAX_;
		return;
	}
	*out_columns = number_of("COLUMNS", 80);
	*out_rows = number_of("LINES", 24);
}
