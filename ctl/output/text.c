/* ctl/output/text.c -- see text.h. */
#include "ctl/output/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output/error.h"

#define MB             1048576.0
#define FILE_MAX_BYTES ((size_t)64 << 20)
#define WORD_MAX       48

struct mt_short_text mt_text_bytes(uint64_t bytes)
{
	struct mt_short_text figure;

	if (bytes >= (uint64_t)10 << 30)
		snprintf(figure.text, sizeof(figure.text), "%.1f GB", (double)bytes / MB / 1024);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f MB", (double)bytes / MB);
	return figure;
}

struct mt_short_text mt_text_change(uint64_t from, uint64_t to)
{
	struct mt_short_text figure, size = mt_text_bytes(to > from ? to - from : from - to);

	snprintf(figure.text, sizeof(figure.text), "%s%.40s",
		 to > from   ? "+"
		 : to < from ? "-"
			     : "",
		 size.text);
	return figure;
}

struct mt_short_text mt_text_ns(uint64_t ns)
{
	struct mt_short_text figure;

	if (ns >= 10000000000u)
		snprintf(figure.text, sizeof(figure.text), "%.1f s", (double)ns / 1e9);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f ms", (double)ns / 1e6);
	return figure;
}

struct mt_short_text mt_text_count(uint64_t count)
{
	struct mt_short_text figure;
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), used = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			figure.text[used++] = ',';
		figure.text[used++] = digits[i];
	}
	figure.text[used] = '\0';
	return figure;
}

struct mt_short_text mt_text_counted(uint64_t count, const char *one, const char *more)
{
	struct mt_short_text figure;

	snprintf(figure.text, sizeof(figure.text), "%.27s %s", mt_text_count(count).text,
		 count == 1 ? one : more);
	return figure;
}

struct mt_short_text mt_text_clock(uint64_t realtime_ns)
{
	struct mt_short_text figure = {"?"};
	time_t seconds = (time_t)(realtime_ns / 1000000000u);
	struct tm broken;
	size_t used;

	if (localtime_r(&seconds, &broken)) {
		used = strftime(figure.text, sizeof(figure.text), "%H:%M:%S", &broken);
		snprintf(figure.text + used, sizeof(figure.text) - used, ".%03u",
			 (unsigned)(realtime_ns % 1000000000u / 1000000u));
	}
	return figure;
}

struct mt_short_text mt_text_field(const char *name, uint64_t value)
{
	struct mt_short_text figure;

	if (mt_text_ends_with(name, "_bytes"))
		return mt_text_bytes(value);
	if (mt_text_ends_with(name, "_ns"))
		return mt_text_ns(value);
	if (mt_text_ends_with(name, "_us"))
		return mt_text_ns(value > UINT64_MAX / 1000 ? UINT64_MAX : value * 1000);
	if (mt_text_ends_with(name, "_count"))
		return mt_text_count(value);
	if (mt_text_ends_with(name, "_ms"))
		snprintf(figure.text, sizeof(figure.text), "%.40s ms", mt_text_count(value).text);
	else if (mt_text_ends_with(name, "_thousandths"))
		snprintf(figure.text, sizeof(figure.text), "%.3f", (double)value / 1000);
	else
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64, value);
	return figure;
}

void mt_text_clean(char *text, size_t text_bytes)
{
	size_t i;

	for (i = 0; i + 1 < text_bytes && text[i]; i++)
		if (text[i] < 0x20 || text[i] >= 0x7f)
			text[i] = '?';
	if (text_bytes)
		memset(text + i, 0, text_bytes - i);
}

bool mt_text_ends_with(const char *text, const char *end)
{
	size_t text_length = strlen(text), end_length = strlen(end);

	return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

const char *mt_text_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool mt_text_parse_u64(const char *text, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return false;
	}
	*out = value;
	return true;
}

uint64_t mt_text_round_u64(double value)
{
	return value >= (double)UINT64_MAX ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Levenshtein by one row; both words are shorter than WORD_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[WORD_MAX], columns = strlen(b);

	for (size_t j = 0; j <= columns; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= columns; j++) {
			size_t above = row[j];

			row[j] = smallest(above + 1, row[j - 1] + 1,
					  diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[columns];
}

/* The shortest of those that go on where the word ends. Of a single letter too many do. */
static const char *continued(const char *word, const char *const *words, size_t count)
{
	const char *shortest = NULL;
	size_t length = strlen(word);

	for (size_t i = 0; length >= 2 && i < count; i++)
		if (strncmp(words[i], word, length) == 0 &&
		    (!shortest || strlen(words[i]) < strlen(shortest)))
			shortest = words[i];
	return shortest;
}

const char *mt_text_nearest(const char *word, const char *const *words, size_t count)
{
	const char *nearest = continued(word, words, count);
	size_t best = 4;

	if (nearest || strlen(word) >= WORD_MAX)
		return nearest;
	for (size_t i = 0; i < count; i++) {
		size_t distance;

		if (strlen(words[i]) >= WORD_MAX)
			continue;
		distance = edit_distance(word, words[i]);
		if (distance < best && distance < strlen(words[i])) {
			best = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

/* Room for at least one more byte and the NUL. */
static char *grow(char *text, size_t used, size_t *room)
{
	if (used + 1 < *room)
		return text;
	*room = *room ? *room * 2 : 8192;
	return mt_error_check_memory(realloc(text, *room));
}

static void close_keeping_errno(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
}

int mt_text_open_regular(const char *path)
{
	int place = open(path, O_PATH | O_CLOEXEC);
	char again[64];
	struct stat seen;
	int fd = -1;

	if (place < 0)
		return -1;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
	errno = EINVAL;
	if (fstat(place, &seen) == 0 && S_ISREG(seen.st_mode))
		fd = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	close_keeping_errno(place);
	return fd;
}

enum beyond { BEYOND_IS_LEFT, BEYOND_IS_AN_ERROR }; /* what there is after most_bytes */

/* Closes it; -1: errno says why there is none. */
static char *read_all(int fd, size_t most_bytes, enum beyond beyond, size_t *length)
{
	char *text = NULL;
	size_t used = 0, room = 0, left;
	ssize_t got = 0;

	if (fd < 0)
		return NULL;
	while (used < most_bytes) {
		text = grow(text, used, &room);
		left = room - used - 1 < most_bytes - used ? room - used - 1 : most_bytes - used;
		got = read(fd, text + used, left);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	/* half of a file would be taken for all of it */
	if (got > 0 && beyond == BEYOND_IS_AN_ERROR) {
		errno = EFBIG;
		got = -1;
	}
	close_keeping_errno(fd);
	if (got < 0) {
		free(text); /* which keeps errno (glibc 2.33) */
		return NULL;
	}
	text[used] = '\0';
	if (length)
		*length = used;
	return text;
}

char *mt_text_read_file(const char *path, size_t *length)
{
	return read_all(mt_text_open_regular(path), FILE_MAX_BYTES, BEYOND_IS_AN_ERROR, length);
}

char *mt_text_read_most(const char *path, size_t most_bytes, size_t *length)
{
	return read_all(mt_text_open_regular(path), most_bytes, BEYOND_IS_AN_ERROR, length);
}

char *mt_text_read_first(const char *path, size_t bytes, size_t *length)
{
	return read_all(mt_text_open_regular(path), bytes, BEYOND_IS_LEFT, length);
}

char *mt_text_read_stream(const char *path, size_t *length)
{
	return read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MAX_BYTES, BEYOND_IS_AN_ERROR,
			length);
}

bool mt_text_find_number(const char *text, const char *key, uint64_t *out)
{
	size_t key_length = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_length) == 0 && strchr(": \t", line[key_length]) &&
		    line[key_length]) {
			const char *number = line + key_length + strspn(line + key_length, ": \t");

			if (!isdigit((unsigned char)*number))
				return false;
			*out = strtoull(number, NULL, 10);
			return true;
		}
	}
	return false;
}
