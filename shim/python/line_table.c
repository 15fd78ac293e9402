#include "python/line_table.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "core/stats_layout.h"
#include "sys/attr.h"

#define STACK_SLOT_BITS 16
_Static_assert(2 * MT_LINES_STACKS_MAX <= 1u << STACK_SLOT_BITS, "half of the slots stay empty");

struct table {
	struct mt_lines_stack stacks[MT_LINES_STACKS_MAX];
	struct mt_lines_frame frames[MT_LINES_FRAMES_MAX];
	struct mt_name_table names;
	uint32_t stack_slots[1u << STACK_SLOT_BITS]; /* index plus one; 0: empty */
	uint32_t stacks_count, frames_count;
	uint32_t reading;
	uint64_t left_out_bytes, left_out_count; /* of the last reading */
};
static struct table *table;

bool mt_line_table_map(void)
{
	void *area = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	/* a child could not unmap it */
	(void)madvise(area, sizeof(*table), MADV_DONTFORK);
	table = area;
	return true;
}

void mt_line_table_unmap(void)
{
	if (table)
		munmap(table, sizeof(*table));
	table = NULL;
}

uint32_t mt_line_table_name(const char *text, size_t bytes)
{
	return mt_name_table_add(&table->names, text, bytes);
}

static uint32_t add_stack(const struct mt_lines_frame *frames, uint32_t count, uint32_t *slot)
{
	struct mt_lines_stack *stack = &table->stacks[table->stacks_count];

	if (table->stacks_count == MT_LINES_STACKS_MAX ||
	    count > MT_LINES_FRAMES_MAX - table->frames_count)
		return MT_LINE_TABLE_NONE;
	stack->first_frame = table->frames_count;
	mt_assert(table->stacks_count < MT_LINES_STACKS_MAX);
	stack->frames_count = count;
	memcpy(table->frames + table->frames_count, frames, count * sizeof(*frames));
	table->frames_count += count;
	mt_assert(table->frames_count <= MT_LINES_FRAMES_MAX);
	*slot = ++table->stacks_count;
	return *slot - 1;
}

static bool is_stack(const struct mt_lines_stack *stack, const struct mt_lines_frame *frames,
		     uint32_t count)
{
	return stack->frames_count == count &&
	       memcmp(table->frames + stack->first_frame, frames, count * sizeof(*frames)) == 0;
}

uint32_t mt_line_table_stack(const struct mt_lines_frame *frames, uint32_t count)
{
	uint32_t slot = mt_name_table_slot(
		mt_checksum(MT_CHECKSUM_START, frames, count * sizeof(*frames)), STACK_SLOT_BITS);

	for (;; slot = (slot + 1) & ((1u << STACK_SLOT_BITS) - 1)) {
		uint32_t seen = table->stack_slots[slot];

		if (!seen)
			return add_stack(frames, count, &table->stack_slots[slot]);
		mt_assert(seen <= table->stacks_count);
		if (is_stack(&table->stacks[seen - 1], frames, count))
			return seen - 1;
	}
}

void mt_line_table_begin_reading(uint32_t reading)
{
	table->reading = reading;
	table->left_out_bytes = 0;
	table->left_out_count = 0;
	for (uint32_t i = 0; i < table->stacks_count; i++)
		table->stacks[i].last_count = 0;
}

void mt_line_table_add(uint32_t stack, uint64_t bytes)
{
	if (stack == MT_LINE_TABLE_NONE) {
		table->left_out_bytes += bytes;
		table->left_out_count++;
		return;

		mt_assert(stack < table->stacks_count);
	}
	table->stacks[stack].bytes[table->reading] += bytes;
	table->stacks[stack].last_count++;
	table->stacks[stack].first_count += table->reading == 0;
}

static uint32_t padded_names_bytes(void)
{
	return (table->names.bytes + 7u) & ~7u;
}

void mt_line_table_pieces(struct mt_line_table_piece out[3])
{
	out[0] = (struct mt_line_table_piece){table->stacks,
					      table->stacks_count * sizeof(*table->stacks)};
	out[1] = (struct mt_line_table_piece){table->frames,
					      table->frames_count * sizeof(*table->frames)};
	out[2] = (struct mt_line_table_piece){table->names.text, padded_names_bytes()};
}

void mt_line_table_describe(struct mt_lines_head *out)
{
	struct mt_line_table_piece pieces[3];

	out->content_sum = MT_CHECKSUM_START;
	if (!table)
		return;
	mt_line_table_pieces(pieces);
	for (int i = 0; i < 3; i++)
		out->content_sum = mt_checksum(out->content_sum, pieces[i].from, pieces[i].bytes);
	out->stacks_count = table->stacks_count;
	out->frames_count = table->frames_count;
	out->names_bytes = padded_names_bytes();
	out->left_out_bytes = table->left_out_bytes;
	out->left_out_count = table->left_out_count;
}

void mt_line_table_fork_child(void)
{
	table = NULL;
}

/* ---- name table ---- */

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
