/* ctl/process/parts_bar.h -- the four parts of resident memory as a bar of text, for tables on
 * stdout: blocks with colours on a terminal in UTF-8, else "####~~==.". ctl/process/memory_parts.h
 * has the parts. One thread may call. */
#ifndef MT_CTL_PROCESS_PARTS_BAR_H
#define MT_CTL_PROCESS_PARTS_BAR_H

#include "ctl/process/memory_parts.h"

#define MT_PARTS_BAR_MAX 64 /* cells */
/* bytes of a bar: a character of three bytes for each cell, and a colour for each part */
#define MT_PARTS_BAR_BYTES (3 * MT_PARTS_BAR_MAX + 16 * MT_PARTS_COUNT)

struct mt_parts_bar {
	char text[MT_PARTS_BAR_BYTES];
};

/* Returns a bar of up to `width` cells; all of them are `full_bytes`. */
struct mt_parts_bar mt_parts_bar(const struct mt_memory_parts *parts, uint64_t full_bytes,
				 int width);

/* Returns one cell of a part, for a legend. */
struct mt_parts_bar mt_parts_bar_cell(enum mt_memory_part part);

#endif
