#include "ctl/process/foreign_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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
