#include "python/name_table.h"

#include <stdbool.h>
#include <string.h>

#include "core/checksum.h"
#include "sys/attr.h"

#define SLOTS (1u << MT_NAME_TABLE_SLOT_BITS)
_Static_assert(2 * MT_NAME_TABLE_COUNT_MAX <= SLOTS, "a search soon meets an empty slot");

/* The last word of the text is filled with NULs in the file of a look. */
static bool has_room(const struct mt_name_table *names, size_t bytes)
{
	return names->count < MT_NAME_TABLE_COUNT_MAX &&
	       bytes + 1 + sizeof(uint64_t) <= sizeof(names->text) - names->bytes;
}

static uint32_t add(struct mt_name_table *names, const char *name, size_t bytes)
{
	uint32_t offset = names->bytes;

	memcpy(names->text + offset, name, bytes);
	names->bytes += (uint32_t)bytes + 1;
	names->count++;
	mt_assert(names->count <= MT_NAME_TABLE_COUNT_MAX && names->bytes <= sizeof(names->text));
	return offset;
}

uint32_t mt_name_table_add(struct mt_name_table *names, const char *name, size_t bytes)
{
	uint64_t sum = MT_CHECKSUM_START;
	uint32_t slot, searched = 0;

	if (!names->count)
		(void)add(names, MT_LINES_REST, sizeof(MT_LINES_REST) - 1);
	bytes = strnlen(name, bytes);
	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (unsigned char)name[i]) * 0x100000001b3ull;
	for (slot = mt_name_table_slot(sum, MT_NAME_TABLE_SLOT_BITS); names->slots[slot];
	     slot = (slot + 1) & (SLOTS - 1)) {
		const char *seen = names->text + names->slots[slot] - 1;

		if (strncmp(seen, name, bytes) == 0 && !seen[bytes])
			return names->slots[slot] - 1;
		mt_assert(++searched < SLOTS);
	}
	(void)searched;
	if (!has_room(names, bytes))
		return MT_NAME_TABLE_REST;
	names->slots[slot] = add(names, name, bytes) + 1;
	return names->slots[slot] - 1;
}
