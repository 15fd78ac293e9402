/* python/line_table.h -- sums of bytes and blocks by Python stack, while a look at the allocating
 * lines runs (python/lines.h). Owns one mapping of a fixed size, of which the kernel backs what is
 * used; what does not fit is counted as left out. One thread at a time: the worker maps, unmaps and
 * reads it while no pending call runs, the pending call fills it. Takes no lock. Never calls
 * malloc. */
#ifndef MT_PYTHON_LINE_TABLE_H
#define MT_PYTHON_LINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dump_layout.h"

/* ---- name table ---- */

/* Names of files, each of them once: an open-addressed table of a fixed size, of which no more than
 * half of the slots are ever used. A new name for which there is no room becomes
 * MT_NAME_TABLE_REST, so that a program that compiles without end neither waits nor grows. A table
 * of zeros is an empty one. One thread at a time. Takes no lock. Never calls malloc. */

#define MT_NAME_TABLE_COUNT_MAX (1u << 14)
#define MT_NAME_TABLE_SLOT_BITS 15
/* The offset of MT_LINES_REST, the first name of every table. */
#define MT_NAME_TABLE_REST 0u

struct mt_name_table {
	char text[MT_LINES_NAMES_MAX];
	uint32_t slots[1u << MT_NAME_TABLE_SLOT_BITS]; /* byte offset plus one; 0: empty */
	uint32_t count, bytes;
};

/* Returns the offset in `text` of a name, which is added if it is new and there is room.
 * Ends at its first NUL. */
uint32_t mt_name_table_add(struct mt_name_table *names, const char *name, size_t bytes);

/* Returns a slot of 1 << bits for a checksum: the high bits of the product depend on all bits. */
static inline uint32_t mt_name_table_slot(uint64_t sum, unsigned bits)
{
	return (uint32_t)((sum * 0x9e3779b97f4a7c15ull) >> (64 - bits));
}

/* ---- line table ---- */

#define MT_LINE_TABLE_NONE UINT32_MAX

/* Maps an empty table. Returns false if there is no memory for it. */
bool mt_line_table_map(void);
void mt_line_table_unmap(void);

/* Returns the place of a file name, which is added if it is new; MT_NAME_TABLE_REST: no room. A
 * frame of that name has line 0. */
uint32_t mt_line_table_name(const char *text, size_t bytes);

/* Returns the index of a stack, which is added if it is new; MT_LINE_TABLE_NONE: no room. count:
 * 1 to MT_LINES_DEPTH_MAX. */
uint32_t mt_line_table_stack(const struct mt_lines_frame *frames, uint32_t count);

/* Adds one live block to a stack in a reading. The next reading begins with
 * mt_line_table_begin_reading. */
void mt_line_table_begin_reading(uint32_t reading);
void mt_line_table_add(uint32_t stack, uint64_t bytes);

/* Fills in counts and what was left out, and the checksum of the contents. */
void mt_line_table_describe(struct mt_lines_head *out);

/* The contents in the order of the file: each piece and its bytes. */
struct mt_line_table_piece {
	const void *from;
	size_t bytes;
};
void mt_line_table_pieces(struct mt_line_table_piece out[3]);

/* Forgets the table in a forked child, which does not inherit the mapping. */
void mt_line_table_fork_child(void);

#endif
