#include "ctl/process/read_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/error.h"

#define FILE_MAX_BYTES ((size_t)64 << 20)

/* Makes room for at least one more byte and the NUL. */
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

int mt_read_file_open(const char *path)
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

enum beyond { BEYOND_IS_LEFT, BEYOND_IS_AN_ERROR }; /* a file longer than max_bytes */

/* Closes the descriptor. fd -1 returns NULL with errno unchanged. */
static char *read_all(int fd, size_t max_bytes, enum beyond beyond, size_t *length)
{
	char *text = NULL;
	size_t used = 0, room = 0, left;
	ssize_t got = 0;

	if (fd < 0)
		return NULL;
	while (used < max_bytes) {
		text = grow(text, used, &room);
		left = room - used - 1 < max_bytes - used ? room - used - 1 : max_bytes - used;
		got = read(fd, text + used, left);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	/* the caller would take a part of the file for all of it */
	if (got > 0 && beyond == BEYOND_IS_AN_ERROR) {
		errno = EFBIG;
		got = -1;
	}
	close_keeping_errno(fd);
	if (got < 0) {
		free(text); /* free(3) keeps errno since glibc 2.33 */
		return NULL;
	}
	text[used] = '\0';
	if (length)
		*length = used;
	return text;
}

char *mt_read_file(const char *path, size_t *length)
{
	return read_all(mt_read_file_open(path), FILE_MAX_BYTES, BEYOND_IS_AN_ERROR, length);
}

char *mt_read_file_max(const char *path, size_t max_bytes, size_t *length)
{
	return read_all(mt_read_file_open(path), max_bytes, BEYOND_IS_AN_ERROR, length);
}

char *mt_read_file_first(const char *path, size_t bytes, size_t *length)
{
	return read_all(mt_read_file_open(path), bytes, BEYOND_IS_LEFT, length);
}

char *mt_read_file_stream(const char *path, size_t *length)
{
	return read_all(open(path, O_RDONLY | O_CLOEXEC), FILE_MAX_BYTES, BEYOND_IS_AN_ERROR,
			length);
}

size_t mt_read_file_at(int fd, void *out, size_t bytes, size_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

bool mt_read_file_number(const char *text, const char *key, uint64_t *out)
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
