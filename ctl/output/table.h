/* ctl/output/table.h -- columns of text that line up, and colours. Cells are copied. Colours are
 * used only on a terminal and only where NO_COLOR is not set. */
#ifndef MT_CTL_OUTPUT_TABLE_H
#define MT_CTL_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_table;

/* A table with these columns, "<NAME|>SIZE": the side to which a column is set, and its heading. */
struct mt_table *mt_table_new(const char *columns);

/* More columns, behind the others; before the first cell. */
void mt_table_add_columns(struct mt_table *table, const char *columns);

/* The next cell; rows fill by themselves. */
void mt_table_add(struct mt_table *table, const char *text);
void mt_table_addf(struct mt_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The next cells, a NULL behind the last. */
void mt_table_add_row(struct mt_table *table, ...) __attribute__((sentinel));

/* The next cell: mt_text_bytes, or "-" where they are not known. */
void mt_table_add_bytes(struct mt_table *table, bool known, uint64_t bytes);

/* Prints to stdout, and frees. */
void mt_table_print(struct mt_table *table);

enum mt_colour { MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN, MT_COLOUR_HEAD, MT_COLOUR_COUNT };

/* The escape sequence that begins a colour, or "" */
const char *mt_table_colour(enum mt_colour colour);
const char *mt_table_colour_end(void);

#endif
