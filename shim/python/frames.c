#include "python/python.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "core/dump_layout.h"
#include "python/python_internal.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"
#include "python/cpython.h"

#define SKIPPED_MAX   8 /* frames that are no code, in a row of all */
#define NAME_BYTES    232u
#define ENTRIES_COUNT (1u << 14)
#define SLOT_BITS     15
#define SPINS         200
#define TABLE_BYTES   64u /* read of a table of lines at once */
#define TABLE_MAX     ((size_t)1 << 20)

/* Offsets in bytes. The sources are the headers of each version: pycore_frame.h (3.14:
 * pycore_interpframe_structs.h), cpython/pystate.h, cpython/code.h, cpython/unicodeobject.h. */
struct layout {
	unsigned minor; /* of 3.x */
	/* in the thread's state: the current frame, or what points to it. cframe_frame: the frame
	 * in that; has_cframe: there is such a step */
	uint16_t state_frame, cframe_frame;
	bool has_cframe;
	uint16_t frame_code, frame_previous, frame_instruction, frame_owner;
	/* from here on an owner is the interpreter's C code, whose frames have no line */
	uint8_t owner_c;
	uint16_t code_file, code_table, code_first_line, code_bytes;
	uint16_t text_ascii, text_compact; /* where the characters begin */
};
static const struct layout layouts[] = {
	{11, 56, 8, true, 32, 48, 56, 69, UINT8_MAX, 112, 136, 72, 184, 48, 72},
	{12, 56, 0, true, 0, 8, 56, 70, 3, 112, 136, 68, 192, 40, 56},
	{13, 72, 0, false, 0, 8, 56, 70, 3, 112, 136, 68, 200, 40, 56},
	{14, 72, 0, false, 0, 8, 56, 74, 3, 112, 136, 68, 208, 40, 56},
};
/* the same in all of them */
#define OBJECT_TYPE  8u
#define OBJECT_SIZE  16u /* of bytes: how many; of text: how many characters */
#define BYTES_VALUE  32u
#define TEXT_STATE   32u
#define FRAME_BYTES  80u
#define CODE_BYTES   144u
#define HEADER_BYTES 40u

static const struct layout *layout; /* of this interpreter */

_Static_assert(2 * ENTRIES_COUNT <= 1u << SLOT_BITS, "a search soon meets an empty slot");

struct entry {
	uint32_t name, line; /* offset in the names */
};
struct table {
	struct entry entries[ENTRIES_COUNT]; /* the first is for what has no room */
	struct mt_name_table names;
	uint32_t slots[1u << SLOT_BITS]; /* an entry's index; 0: empty */
	_Atomic uint32_t count;          /* release after the entry is written; a reader acquires */
};
/* Written once by the worker, release after `layout`; a sampling thread acquires. */
static _Atomic(struct table *) lines;
static _Atomic bool locked; /* acquire and release around changes of the table */

/* ---- the interpreter ---- */

/* NULL: this interpreter is not known. */
static const struct layout *find_layout(void)
{
	/* only a free-threaded build has the last one; its objects have another header */
	if (!mt_cpython_find() || !mt_cpython.is_whole || mt_cpython._Py_DecRefShared)
		return NULL;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].minor == mt_cpython_minor())
			return &layouts[i];
	return NULL;
}

void mt_frames_prepare(void)
{
	const struct layout *found;
	void *area;

	if (mt_load_relaxed(&lines) || !(found = find_layout()))
		return;
	area = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return;
	layout = found;
	((struct table *)area)->count = 1;
	mt_store_release(&lines, area);
}

/* ---- reading ---- */

static uintptr_t word_at(const unsigned char *bytes, size_t offset)
{
	uintptr_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static bool read_all(uintptr_t from, void *out, size_t bytes)
{
	return from && mt_os_read_own((const void *)from, out, bytes) == (ssize_t)bytes;
}

/* Reads the beginning of an object of this type. */
static bool read_object(uintptr_t object, uintptr_t type, unsigned char *out, size_t bytes)
{
	return read_all(object, out, bytes) && word_at(out, OBJECT_TYPE) == type;
}

static uintptr_t first_frame(uintptr_t state)
{
	uintptr_t frame;

	if (!read_all(state + layout->state_frame, &frame, sizeof(frame)))
		return 0;
	if (layout->has_cframe && !read_all(frame + layout->cframe_frame, &frame, sizeof(frame)))
		return 0;
	return frame;
}

/* Reads the file name of code; of a long one the end. Letters beyond ASCII become '?'. Returns how
 * many bytes; 0: it cannot be read. */
static size_t read_name(uintptr_t text, char out[NAME_BYTES])
{
	unsigned char header[HEADER_BYTES];
	size_t count, kind, first;
	uint32_t state;
	uintptr_t from;

	if (!read_object(text, (uintptr_t)mt_cpython.PyUnicode_Type, header, sizeof(header)))
		return 0;
	memcpy(&state, header + TEXT_STATE, sizeof(state));
	count = word_at(header, OBJECT_SIZE);
	kind = state >> 2 & 7;
	if (!(state & 1u << 5) || kind != 1 || !count || count > UINT32_MAX)
		return 0; /* not in one piece, or of letters beyond Latin-1 */
	first = count > NAME_BYTES ? count - NAME_BYTES : 0;
	from = text + (state & 1u << 6 ? layout->text_ascii : layout->text_compact);
	count -= first;
	if (!read_all(from + first, out, count))
		return 0;
	for (size_t i = 0; i < count; i++)
		if (out[i] < ' ' || out[i] > '~')
			out[i] = '?';
	return count;
}

/* ---- the table of lines of code: Objects/locations.md of CPython ---- */

struct reader {
	uintptr_t at, end;
	unsigned char bytes[TABLE_BYTES];
	size_t used, filled;
};

/* The next byte; -1: there is none. */
static int next_byte(struct reader *reader)
{
	size_t left = reader->end - reader->at;

	if (reader->used == reader->filled) {
		reader->filled = left < TABLE_BYTES ? left : TABLE_BYTES;
		reader->used = 0;
		if (!reader->filled || !read_all(reader->at, reader->bytes, reader->filled))
			return -1;
		reader->at += reader->filled;
	}
	mt_assert(reader->used < reader->filled && reader->filled <= TABLE_BYTES);
	return reader->bytes[reader->used++];
}

static bool next_number(struct reader *reader, uint32_t *out)
{
	int byte;

	*out = 0;
	for (unsigned shift = 0; shift < 30; shift += 6) {
		byte = next_byte(reader);
		if (byte < 0)
			return false;
		*out |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64))
			return true;
	}
	return false;
}

static bool skip_numbers(struct reader *reader, int count)
{
	uint32_t number;

	while (count-- > 0)
		if (!next_number(reader, &number))
			return false;
	return true;
}

/* Adds what an entry with this code adds to the line, and skips its columns. */
static bool take_entry(struct reader *reader, int code, int64_t *line)
{
	uint32_t number;

	if (code == 15)
		return true;
	if (code >= 13) {
		if (!next_number(reader, &number))
			return false;
		*line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
		return skip_numbers(reader, code == 14 ? 3 : 0);
	}
	if (code >= 10) {
		*line += code - 10;
		return next_byte(reader) >= 0 && next_byte(reader) >= 0;
	}
	return next_byte(reader) >= 0;
}

/* Returns the line of the instruction at this offset in bytes; 0: it has none. */
static uint32_t find_line(uintptr_t table, int64_t line, size_t offset)
{
	unsigned char header[BYTES_VALUE];
	struct reader reader = {.used = 0};
	size_t at = 0, count;
	int first;

	if (!read_object(table, (uintptr_t)mt_cpython.PyBytes_Type, header, sizeof(header)))
		return 0;
	count = word_at(header, OBJECT_SIZE);
	if (count > TABLE_MAX)
		return 0;
	reader.at = table + BYTES_VALUE;
	reader.end = reader.at + count;
	while ((first = next_byte(&reader)) >= 0) {
		int code = first >> 3 & 15;

		if (!(first & 128) || !take_entry(&reader, code, &line))
			return 0;
		at += ((size_t)(first & 7) + 1) * 2;
		if (offset < at)
			return code != 15 && line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
	}
	return 0;
}

/* ---- the table ---- */

/* Returns the address of a line, which is added if it is new and there is room. */
static uintptr_t intern(struct table *table, const char *name, size_t bytes, uint32_t line)
{
	uint32_t offset = mt_tracing_name_add(&table->names, name, bytes), slot;
	uint32_t count = mt_load_relaxed(&table->count);

	if (offset == MT_NAME_TABLE_REST)
		return (uintptr_t)&table->entries[0];
	for (slot = mt_tracing_name_slot((uint64_t)offset << 32 | line, SLOT_BITS);
	     table->slots[slot]; slot = (slot + 1) & ((1u << SLOT_BITS) - 1)) {
		const struct entry *seen = &table->entries[table->slots[slot]];

		if (seen->name == offset && seen->line == line)
			return (uintptr_t)seen;
	}
	if (count == ENTRIES_COUNT)
		return (uintptr_t)&table->entries[0];
	mt_assert(count && count < ENTRIES_COUNT);
	table->entries[count] = (struct entry){offset, line};
	table->slots[slot] = count;
	mt_store_release(&table->count, count + 1);
	return (uintptr_t)&table->entries[count];
}

static bool lock(void)
{
	for (int i = 0; i < SPINS; i++)
		if (!atomic_exchange_explicit(&locked, true, memory_order_acquire))
			return true;
	return false;
}

static void unlock(void)
{
	mt_store_release(&locked, false);
}

/* ---- frames ---- */

/* The line of a frame: its address, 0 for a frame without one, or of what cannot be read. */
static uintptr_t line_of(struct table *table, const unsigned char *frame)
{
	uintptr_t code = word_at(frame, layout->frame_code) & ~(uintptr_t)1; /* 3.14: a tag */
	uintptr_t instruction = word_at(frame, layout->frame_instruction);
	unsigned char head[CODE_BYTES];
	char name[NAME_BYTES];
	int32_t first_line;
	uint32_t line;
	size_t bytes;

	if (frame[layout->frame_owner] >= layout->owner_c ||
	    !read_object(code, (uintptr_t)mt_cpython.PyCode_Type, head, sizeof(head)) ||
	    instruction < code + layout->code_bytes)
		return 0;
	memcpy(&first_line, head + layout->code_first_line, sizeof(first_line));
	line = find_line(word_at(head, layout->code_table), first_line,
			 instruction - code - layout->code_bytes);
	bytes = line ? read_name(word_at(head, layout->code_file), name) : 0;
	return bytes ? intern(table, name, bytes, line) : 0;
}

static size_t walk(struct table *table, uintptr_t frame, uintptr_t *out, size_t max)
{
	unsigned char bytes[FRAME_BYTES];
	size_t count = 0, skipped = 0;

	while (count < max && skipped < SKIPPED_MAX && read_all(frame, bytes, sizeof(bytes))) {
		uintptr_t line = line_of(table, bytes);

		if (line)
			out[count++] = line;
		else
			skipped++;
		frame = word_at(bytes, layout->frame_previous);
	}
	mt_assert(count <= max);
	return count;
}

size_t mt_frames_lines(uintptr_t *out, size_t max)
{
	struct table *table = mt_load_acquire(&lines);
	uintptr_t state = table ? (uintptr_t)mt_cpython.PyGILState_GetThisThreadState() : 0, frame;
	size_t count;

	if (!state)
		return 0;
	frame = first_frame(state);
	if (!frame || !lock())
		return 0;
	count = walk(table, frame, out, max);
	unlock();
	return count;
}

/* ---- the file ---- */

bool mt_frames_write(int fd, uint64_t at)
{
	static const char title[] = "\n" MT_LINES_IN_PROFILE "\n";
	const struct table *table = mt_load_acquire(&lines);
	uint32_t count = table ? mt_load_acquire(&table->count) : 0;
	char text[NAME_BYTES + 64];

	if (count <= 1)
		return true;
	if (!mt_os_write_whole(fd, title, sizeof(title) - 1, &at))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct entry *entry = &table->entries[i];
		size_t bytes = mt_format(text, sizeof(text), "0x%lx %u %s\n",
					 (unsigned long)(uintptr_t)entry, entry->line,
					 table->names.text + entry->name);

		if (!mt_os_write_whole(fd, text, bytes, &at))
			return false;
	}
	return true;
}

bool mt_frames_line_text(uintptr_t line, char *out, size_t out_bytes)
{
	const struct table *table = mt_load_acquire(&lines);
	uint32_t count = table ? mt_load_acquire(&table->count) : 0;
	const struct entry *entry = (const void *)line;

	if (!count || entry < table->entries || entry >= table->entries + count)
		return false;
	mt_format(out, out_bytes, "%s:%u", table->names.text + entry->name, entry->line);
	return true;
}

void mt_frames_fork_child(void)
{
	unlock();
}
