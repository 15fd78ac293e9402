#include "ctl/profile/sites.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dump_layout.h"
#include "ctl/output/text.h"
#include "ctl/profile/lines.h"

#define STACKS_MAX ((size_t)1 << 17)
/* of all stacks: naming one takes some 30 bytes */
#define ADDRESSES_MAX ((size_t)1000000)
#define LINES_MAX     ((size_t)1 << 16)
#define LINE_BYTES    288

struct reader {
	const char *at, *end;
	struct mt_heap_profile *file;
};

/* ---- words ---- */

static bool skip(struct reader *reader, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
		return false;
	reader->at += length;
	return true;
}

static int digit_of(char byte, unsigned base)
{
	int digit = byte >= '0' && byte <= '9'   ? byte - '0'
		    : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
						 : 16;

	return digit < (int)base ? digit : -1;
}

static bool read_number(struct reader *reader, unsigned base, uint64_t *out)
{
	const char *from = reader->at;
	uint64_t value = 0;

	for (; reader->at < reader->end && digit_of(*reader->at, base) >= 0; reader->at++)
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_of(*reader->at, base), &value))
			return false;
	*out = value;
	return reader->at > from;
}

static bool skip_line(struct reader *reader)
{
	const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));

	reader->at = newline ? newline + 1 : reader->end;
	return newline;
}

/* "COUNT: BYTES [COUNT: BYTES]"; the counts of all allocations are ignored */
static bool read_counts(struct reader *reader, uint64_t *out_count, uint64_t *out_bytes)
{
	return read_number(reader, 10, out_count) && skip(reader, ": ") &&
	       read_number(reader, 10, out_bytes) && skip(reader, " [") && skip_line(reader);
}

/* ---- stacks ---- */

/* " 0x1 0x2 0x3" and a newline. Of a stack beyond ADDRESSES_MAX no address is kept. */
static bool read_addresses(struct reader *reader)
{
	struct mt_heap_profile *file = reader->file;
	uint64_t addresses[MT_HEAP_PROFILE_FRAMES];
	size_t count = 0;

	while (skip(reader, " ")) {
		if (count == MT_HEAP_PROFILE_FRAMES || !skip(reader, "0x") ||
		    !read_number(reader, 16, &addresses[count]))
			return false;
		count++;
	}
	if (count > ADDRESSES_MAX - file->addresses_count)
		count = 0;
	for (size_t i = 0; i < count; i++) {
		file->addresses = mt_error_make_room(file->addresses, file->addresses_count,
						     sizeof(*file->addresses));
		file->addresses[file->addresses_count++] = addresses[i];
	}
	return skip(reader, "\n");
}

/* "@ 0x1 0x2", then lines "t*: 1: 64 [0: 0]" and "t3: ...". Only the line of all threads counts. */
static bool read_stack(struct reader *reader)
{
	struct mt_heap_profile *file = reader->file;
	struct mt_heap_profile_stack stack = {.first = file->addresses_count};

	if (!read_addresses(reader) || !skip(reader, "  t*: ") ||
	    !read_counts(reader, &stack.sampled_count, &stack.sampled_bytes))
		return false;
	while (skip(reader, "  t"))
		if (!skip_line(reader))
			return false;
	stack.frames_count = file->addresses_count - stack.first;
	if (!stack.sampled_count || !stack.sampled_bytes) {
		file->addresses_count = stack.first;
		return true;
	}
	if (file->stacks_count == STACKS_MAX)
		return false;
	file->stacks = mt_error_make_room(file->stacks, file->stacks_count, sizeof(*file->stacks));
	file->stacks[file->stacks_count++] = stack;
	return true;
}

static bool read_head(struct reader *reader)
{
	uint64_t count, bytes;

	if (!skip(reader, "heap_v2/") || !read_number(reader, 10, &reader->file->rate_bytes) ||
	    !skip(reader, "\n") || !reader->file->rate_bytes || !skip(reader, "  t*: ") ||
	    !read_counts(reader, &count, &bytes))
		return false;
	while (skip(reader, "  t"))
		if (!skip_line(reader))
			return false;
	return true;
}

/* ---- lines of Python ---- */

/* "0x7f12 14 /app/train.py" and a newline. */
static bool read_line(struct reader *reader, struct mt_heap_profile_line *out)
{
	const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
	uint64_t line;
	char text[LINE_BYTES];

	if (!newline || !skip(reader, "0x") || !read_number(reader, 16, &out->address) ||
	    !skip(reader, " ") || !read_number(reader, 10, &line) || line > INT32_MAX ||
	    !skip(reader, " ") || reader->at >= newline)
		return false;
	snprintf(text, sizeof(text), "%.*s",
		 (int)(newline - reader->at < 256 ? newline - reader->at : 256), reader->at);
	mt_text_clean(text, sizeof(text));
	out->is_own = mt_lines_is_own(text);
	out->is_typed_in = mt_lines_is_typed_in(text);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), ":%" PRIu64, line);
	out->text = mt_error_check_memory(strdup(text));
	reader->at = newline + 1;
	return true;
}

static int compare_lines(const void *a, const void *b)
{
	const struct mt_heap_profile_line *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* They stand behind the copy of the maps. */
static void read_lines(struct reader *reader)
{
	static const char title[] = "\n" MT_LINES_IN_PROFILE "\n";
	struct mt_heap_profile *file = reader->file;
	const char *at =
		memmem(reader->at, (size_t)(reader->end - reader->at), title, sizeof(title) - 1);

	if (!at)
		return;
	reader->at = at + sizeof(title) - 1;
	while (file->lines_count < LINES_MAX) {
		file->lines =
			mt_error_make_room(file->lines, file->lines_count, sizeof(*file->lines));
		if (!read_line(reader, &file->lines[file->lines_count]))
			break;
		file->lines_count++;
	}
	if (file->lines_count)
		qsort(file->lines, file->lines_count, sizeof(*file->lines), compare_lines);
}

const struct mt_heap_profile_line *mt_heap_profile_line(const struct mt_heap_profile *file,
							uint64_t address)
{
	const struct mt_heap_profile_line key = {.address = address};

	return file->lines_count ? bsearch(&key, file->lines, file->lines_count,
					   sizeof(*file->lines), compare_lines)
				 : NULL;
}

enum mt_err mt_heap_profile_parse(const char *text, size_t bytes, struct mt_heap_profile *out,
				  struct mt_error_reason *why)
{
	struct reader reader = {.at = text, .end = text + bytes, .file = out};
	bool good;

	*out = (struct mt_heap_profile){0};
	good = read_head(&reader);
	while (good && skip(&reader, "@"))
		good = read_stack(&reader);
	/* A copy of the process's maps follows. The kernel's maps are read instead. */
	good = good && skip(&reader, "\nMAPPED_LIBRARIES:\n");
	if (good) {
		read_lines(&reader);
		return MT_ERR_OK;
	}
	mt_heap_profile_free(out);
	return mt_error_because(why, MT_ERR_INVALID,
				"refused: not a whole heap profile (wrong from byte %zu on)",
				(size_t)(reader.at - text));
}

void mt_heap_profile_free(struct mt_heap_profile *file)
{
	free(file->addresses);
	free(file->stacks);
	for (size_t i = 0; i < file->lines_count; i++)
		free(file->lines[i].text);
	free(file->lines);
	*file = (struct mt_heap_profile){0};
}

static uint64_t rounded(double value)
{
	return value < (double)INT64_MAX ? (uint64_t)(value + 0.5) : INT64_MAX;
}

void mt_heap_profile_scale(uint64_t rate_bytes, uint64_t sampled_count, uint64_t sampled_bytes,
			   uint64_t *out_count, uint64_t *out_bytes)
{
	double mean = sampled_count ? (double)sampled_bytes / (double)sampled_count : 0;
	double chance = -expm1(-mean / (double)rate_bytes);

	*out_count = sampled_count;
	*out_bytes = sampled_bytes;
	if (chance > 0) {
		*out_count = rounded((double)sampled_count / chance);
		*out_bytes = rounded((double)sampled_bytes / chance);
	}
}
