/* fuzz.c -- see fuzz.h. */
#include "fuzz.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_broken(const char *file, int line, const char *promise, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%d: a promise is broken: %s: ", file, line, promise);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	abort();
}

/* ---- parts ---- */

static void add_part(struct fuzz_parts *out, const char *name, size_t name_bytes, const char *text,
		     size_t bytes)
{
	struct fuzz_part *part = &out->list[out->count++];

	if (name_bytes >= sizeof(part->name))
		name_bytes = sizeof(part->name) - 1;
	memcpy(part->name, name, name_bytes);
	part->name[name_bytes] = '\0';
	part->bytes = bytes;
	part->text = malloc(bytes + 1);
	if (!part->text)
		abort();
	memcpy(part->text, text, bytes);
	part->text[bytes] = '\0';
}

/* The next line that begins with "%%", or the end. */
static const char *next_mark(const char *at, const char *end)
{
	while (at < end && !(end - at > 1 && at[0] == '%' && at[1] == '%')) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	return at;
}

void fuzz_cut(const uint8_t *data, size_t bytes, struct fuzz_parts *out)
{
	const char *text = (const char *)data, *end = text + bytes;
	const char *at = bytes ? next_mark(text, end) : end;

	out->count = 0;
	while (at < end && out->count < FUZZ_PARTS_MOST) {
		const char *name = at + 2, *newline = memchr(name, '\n', (size_t)(end - name));
		const char *body = newline ? newline + 1 : end;

		at = next_mark(body, end);
		add_part(out, name, (size_t)((newline ? newline : end) - name), body,
			 (size_t)(at - body));
	}
}

void fuzz_drop(struct fuzz_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		free(parts->list[i].text);
	parts->count = 0;
}

bool fuzz_is(const struct fuzz_part *part, const char *name, const char **rest)
{
	size_t length = strlen(name);

	if (strncmp(part->name, name, length) != 0 ||
	    (part->name[length] && part->name[length] != ' '))
		return false;
	if (rest)
		*rest = part->name + length + (part->name[length] == ' ');
	return true;
}

char *fuzz_line(char **rest)
{
	char *line = *rest, *end;

	if (!line || !*line)
		return NULL;
	end = strchr(line, '\n');
	*rest = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return line;
}

uint64_t fuzz_number(const char *text)
{
	return strcmp(text, "max") == 0 ? UINT64_MAX : strtoull(text, NULL, 0);
}

/* ---- what is printed ---- */

static struct {
	FILE *file, *real;
	char *text;
	size_t bytes;
} output;

void fuzz_output_begin(void)
{
	free(output.text);
	output.text = NULL;
	output.file = open_memstream(&output.text, &output.bytes);
	if (!output.file)
		abort();
	output.real = stdout;
	stdout = output.file;
}

const char *fuzz_output_end(size_t *out_bytes)
{
	stdout = output.real;
	if (fclose(output.file) != 0)
		abort();
	*out_bytes = output.bytes;
	return output.text;
}

/* The bytes of a character of UTF-8 above the control characters; 0: it is none. */
static size_t character_bytes(const unsigned char *text, size_t left)
{
	size_t bytes = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;

	if (*text < 0xc2 || *text > 0xf4 || bytes > left || (*text == 0xc2 && text[1] < 0xa0))
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return bytes;
}

void fuzz_expect_clean(const char *what, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		bool is_plain =
			(text[i] >= ' ' && text[i] <= '~') || text[i] == '\n' || text[i] == '\t';
		size_t more =
			is_plain ? 1 : character_bytes((const unsigned char *)text + i, bytes - i);

		fuzz_expect(more, "%s: byte %zu is 0x%02x", what, i, (unsigned char)text[i]);
		i += more;
	}
}

void fuzz_expect_text(const char *what, const char *text, size_t room)
{
	size_t length = strnlen(text, room);

	fuzz_expect(length < room, "%s has no end", what);
	fuzz_expect_clean(what, text, length);
	fuzz_expect(!memchr(text, '\n', length) && !memchr(text, '\t', length), "%s is no line",
		    what);
}

void fuzz_expect_json(const char *what, const char *text, size_t bytes)
{
	json_error_t error;
	json_t *value;

	fuzz_expect_clean(what, text, bytes);
	value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	fuzz_expect(value, "%s: %s, line %d", what, error.text, error.line);
	json_decref(value);
}

int fuzz_file(const void *bytes, size_t count)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || (count && write(fd, bytes, count) != (ssize_t)count))
		abort();
	return fd;
}
