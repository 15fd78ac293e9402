/* ctl/output/table.h -- tables of aligned columns, and colours. Colours are used only on a
 * terminal, and only if NO_COLOR is not set. One thread may call. */
#ifndef MT_CTL_OUTPUT_TABLE_H
#define MT_CTL_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_table;

/* Returns a table with these columns, "<NAME|>SIZE": for each its alignment (< left, > right) and
 * its heading. */
struct mt_table *mt_table_new(const char *columns);

/* Adds columns to the right, before the first cell. */
void mt_table_add_columns(struct mt_table *table, const char *columns);

/* Adds the next cell, a copy of the text, which may have colours and characters of UTF-8. A row is
 * full when every column has a cell. */
void mt_table_add(struct mt_table *table, const char *text);
void mt_table_addf(struct mt_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds cells. The last argument is NULL. */
void mt_table_add_row(struct mt_table *table, ...) __attribute__((sentinel));

/* Adds a cell: mt_text_bytes, or "-" if the number is not known. */
void mt_table_add_bytes(struct mt_table *table, bool known, uint64_t bytes);

/* Gives the lines of the table to `take`, the headings as row 0, and frees the table. */
void mt_table_each_line(struct mt_table *table,
			void (*take)(void *data, size_t row, const char *line), void *data);

/* Prints the table to stdout, each row in as many lines as it takes on the screen, and frees it. */
void mt_table_print(struct mt_table *table);
void mt_table_free(struct mt_table *table);

enum mt_colour { MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN, MT_COLOUR_HEAD, MT_COLOUR_COUNT };

/* Returns the escape sequence that begins a colour, or "". */
const char *mt_table_colour(enum mt_colour colour);
const char *mt_table_colour_end(void);

/* Writes the size of the terminal that stdout is, else the values of COLUMNS and LINES, up to
 * 10,000; 0: neither is there, so nobody looks at a screen. */
void mt_table_screen(int *out_columns, int *out_rows);

#endif
