/* ctl/output/table.h -- columns of text that line up, and colours. Cells are copied. Colours are
 * used only on a terminal and only where NO_COLOR is not set. */
#ifndef MT_CTL_OUTPUT_TABLE_H
#define MT_CTL_OUTPUT_TABLE_H

#include <stddef.h>

struct mt_table;

/* One character a column: 'l' or 'r' for the side to which it is set. The first row added is the
 * heading. */
struct mt_table *mt_table_new(const char *columns);

/* The next cell; rows fill by themselves. */
void mt_table_add(struct mt_table *table, const char *text);

/* Prints to stdout, and frees. */
void mt_table_print(struct mt_table *table);

enum mt_colour { MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN, MT_COLOUR_HEAD, MT_COLOUR_COUNT };

/* The escape sequence that begins a colour, or "" */
const char *mt_table_colour(enum mt_colour colour);
const char *mt_table_colour_end(void);

#endif
