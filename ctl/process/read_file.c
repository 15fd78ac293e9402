#include "ctl/process/read_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

/* ---- foreign path ---- */

#define DEPTH_MAX 128u
#define LINKS_MAX 40u /* as the kernel's own; path_resolution(7) */
#define NAMES_MAX 4000u

struct path_walk {
	bool is_root;
	int folders[DEPTH_MAX]; /* from the start down */
	unsigned depth, links, names;
	char text[2 * PATH_MAX], *rest; /* the rest of the path, in `text` */
};

bool mt_foreign_path_is_proc(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) != 0 || system.f_type == PROC_SUPER_MAGIC;
}

static int fail(int code)
{
	errno = code;
	return -1;
}

static void pop_to(struct path_walk *walk, unsigned depth)
{
	int kept = errno;

	while (walk->depth > depth)
		close(walk->folders[--walk->depth]);
	errno = kept;
}

/* Takes the descriptor over. Returns 0 for success. */
static int push(struct path_walk *walk, int fd)
{
	if (fd < 0)
		return -1;
	if (walk->depth == DEPTH_MAX) {
		close(fd);
		return fail(ENAMETOOLONG);
	}
	walk->folders[walk->depth++] = fd;
	return 0;
}

static int top(const struct path_walk *walk)
{
	return walk->folders[walk->depth - 1];
}

static int go_to_root(struct path_walk *walk)
{
	pop_to(walk, walk->is_root ? 1 : 0);
	return walk->is_root ? 0 : push(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static int go_up(struct path_walk *walk)
{
	int above;

	if (walk->depth > 1) {
		pop_to(walk, walk->depth - 1);
		return 0;
	}
	if (walk->is_root)
		return 0;
	above = openat(top(walk), "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (above < 0)
		return -1;
	pop_to(walk, 0);
	return push(walk, above);
}

/* Puts the target of the link before the rest of the path. Closes the link. */
static int follow(struct path_walk *walk, int link)
{
	size_t rest_bytes = strlen(walk->rest) + 1;
	char *kept = walk->text + sizeof(walk->text) - rest_bytes;
	ssize_t length;

	memmove(kept, walk->rest, rest_bytes);
	length = readlinkat(link, "", walk->text, (size_t)(kept - walk->text));
	close(link);
	if (length < 0)
		return -1;
	if (length >= kept - walk->text)
		return fail(ENAMETOOLONG);
	if (++walk->links > LINKS_MAX)
		return fail(ELOOP);
	walk->text[length] = '/';
	memmove(walk->text + length + 1, kept, rest_bytes);
	walk->rest = walk->text;
	return *walk->text == '/' ? go_to_root(walk) : 0;
}

static int go_into(struct path_walk *walk, const char *name)
{
	struct stat seen;
	int fd;

	if (mt_foreign_path_is_proc(top(walk)))
		return fail(EXDEV);
	fd = openat(top(walk), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &seen) == 0 && S_ISDIR(seen.st_mode))
		return push(walk, fd);
	if (S_ISLNK(seen.st_mode) && *walk->rest)
		return follow(walk, fd);
	close(fd);
	return fail(S_ISLNK(seen.st_mode) ? ELOOP : ENOTDIR);
}

static int go(struct path_walk *walk)
{
	int result = 0;

	while (!result && *walk->rest) {
		char *name = walk->rest, *end = name + strcspn(name, "/");

		walk->rest = end + strspn(end, "/");
		*end = '\0';
		if (++walk->names > NAMES_MAX)
			result = fail(ELOOP);
		else if (strcmp(name, "..") == 0)
			result = go_up(walk);
		else if (*name && strcmp(name, ".") != 0)
			result = go_into(walk, name);
	}
	return result;
}

int mt_foreign_path_open(int start, bool is_root, const char *path)
{
	struct path_walk walk = {.is_root = is_root};
	int fd = -1;

	if (push(&walk, start) != 0)
		return -1;
	if ((size_t)snprintf(walk.text, PATH_MAX, "%s", path) >= PATH_MAX) {
		pop_to(&walk, 0);
		return fail(ENAMETOOLONG);
	}
	walk.rest = walk.text;
	if ((*path != '/' || go_to_root(&walk) == 0) && go(&walk) == 0) {
		if (mt_foreign_path_is_proc(top(&walk)))
			errno = EXDEV;
		else
			fd = openat(top(&walk), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	pop_to(&walk, 0);
	return fd;
}
