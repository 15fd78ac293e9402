/* ctl/output/chart.h -- a chart of characters for a terminal. A cell has 2 x 4 dots where the
 * locale is UTF-8 (Braille patterns, U+2800), otherwise one. The layers differ in their pattern, so
 * that the chart can be read without colours: an area is full, a second area is a half of the dots,
 * a line is a line. In ASCII they are '#', ':' and '*'. One thread may call. */
#ifndef MT_CTL_OUTPUT_CHART_H
#define MT_CTL_OUTPUT_CHART_H

#include <stdbool.h>
#include <stddef.h>

enum mt_chart_layer { MT_CHART_AREA, MT_CHART_SECOND, MT_CHART_LINE, MT_CHART_LAYERS };

struct mt_chart;

/* Returns an empty chart of so many cells. is_utf8: of mt_chart_is_utf8. */
struct mt_chart *mt_chart_new(int columns, int rows, bool is_utf8);
void mt_chart_free(struct mt_chart *chart);

/* The size in dots. */
int mt_chart_width(const struct mt_chart *chart);
int mt_chart_height(const struct mt_chart *chart);

/* Sets the dots of a column from `low` up to and without `high`; 0 is the bottom. What lies outside
 * is left out. */
void mt_chart_fill(struct mt_chart *chart, enum mt_chart_layer layer, int column, int low,
		   int high);

/* Prints a row to stdout, without blanks at its end and without a newline; 0 is the top. */
void mt_chart_print_row(const struct mt_chart *chart, int row);

/* Returns what stands for a layer in a legend. */
const char *mt_chart_swatch(enum mt_chart_layer layer, bool is_utf8);

/* Returns whether the locale of the environment is UTF-8. Calls setlocale(3). */
bool mt_chart_is_utf8(void);

/* Returns the columns and rows of the terminal: of stdout, else COLUMNS and LINES, else 80 x 24. */
void mt_chart_screen(int *out_columns, int *out_rows);

#endif
