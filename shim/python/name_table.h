/* python/name_table.h -- names of files, each of them once: an open-addressed table of a fixed
 * size, of which no more than half of the slots are ever used. A new name for which there is no
 * room becomes MT_NAME_TABLE_REST, so that a program that compiles without end neither waits nor
 * grows. A table of zeros is an empty one. One thread at a time. Takes no lock. Never calls
 * malloc. */
#ifndef MT_PYTHON_NAME_TABLE_H
#define MT_PYTHON_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/lines_layout.h"

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

#endif
