/* ctl/output/outfile.c -- see outfile.h. */
#include "ctl/output/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/path_walk.h"

#define TRIES 10

/* What is wanted, and what has come of it. */
struct reach {
	const char *path;
	struct mt_walk walk;
	int flags;        /* for what is there already */
	mode_t mode;      /* for what is not */
	const char *text; /* that a new file gets; NULL: none */
	bool made, again;
	/* what a last link leads to is made, too; there was such a link */
	bool makes_behind_links, followed;
	struct mt_why *why;
};

static long ask_kernel(long number, long a, long b, long c, long d, long e, long f)
{
	return syscall(number, a, b, c, d, e, f);
}

static enum mt_err refuse(const struct reach *reach)
{
	if (reach->walk.foreign)
		return mt_error_because(
			reach->why, MT_ERR_FOREIGN,
			"%.180s: a symbolic link in it is another user's; it is left alone",
			reach->path);
	return mt_error_because(reach->why, MT_ERR_SYSTEM, "%.200s: %s", reach->path,
				strerror(errno));
}

static enum mt_err check(const struct reach *reach, const struct stat *file)
{
	struct stat folder;

	if (fstat(reach->walk.folder, &folder) != 0)
		return refuse(reach);
	if (!S_ISREG(file->st_mode) && folder.st_uid != geteuid() &&
	    !mt_walk_is_roots(&reach->walk, folder.st_uid))
		return mt_error_because(reach->why, MT_ERR_FOREIGN,
					"%.150s is no regular file, in a folder of user %u; it is "
					"left alone",
					reach->path, (unsigned)folder.st_uid);
	if (mt_walk_may_write(file, &folder, geteuid()))
		return MT_ERR_OK;
	return mt_error_because(reach->why, MT_ERR_FOREIGN,
				"%.150s belongs to user %u or has more than one name, and may be "
				"another user's doing; it is left alone",
				reach->path, (unsigned)file->st_uid);
}

/* What was looked at, and nothing that has taken its place since. A regular file does not make the
 * open wait, but a lease on it does, for 45 s by default (fcntl(2)). */
static enum mt_err open_seen(const struct reach *reach, int seen, bool is_regular, int *out_fd)
{
	int flags = reach->flags | (is_regular ? O_NONBLOCK : 0);
	char again[64];

	snprintf(again, sizeof(again), "/proc/self/fd/%d", seen);
	*out_fd = open(again, flags | O_NOCTTY | O_CLOEXEC);
	if (*out_fd < 0 && is_regular && errno == EWOULDBLOCK)
		return mt_error_because(reach->why, MT_ERR_SYSTEM,
					"%.180s: another process has a lease on it", reach->path);
	if (*out_fd < 0)
		return refuse(reach);
	(void)fcntl(*out_fd, F_SETFL, reach->flags);
	return MT_ERR_OK;
}

/* `seen` is what bears the last name, and no more than that. */
static enum mt_err take(struct reach *reach, int seen, int *out_fd)
{
	struct mt_walk *walk = &reach->walk;
	struct stat file;
	enum mt_err error;

	if (fstat(seen, &file) != 0)
		return refuse(reach);
	if (!S_ISLNK(file.st_mode)) {
		error = check(reach, &file);
		return error ? error : open_seen(reach, seen, S_ISREG(file.st_mode), out_fd);
	}
	switch (mt_walk_follow(walk, seen, NULL)) {
	case MT_WALK_ON:
		reach->again = reach->followed = true;
		return MT_ERR_OK;
	case MT_WALK_BY_KERNEL:
		*out_fd = openat(walk->folder, walk->name, reach->flags | O_NOCTTY | O_CLOEXEC);
		return *out_fd < 0 ? refuse(reach) : MT_ERR_OK;
	case MT_WALK_FAILED:
		break;
	}
	return refuse(reach);
}

/* One more turn, to the end of the path or of the link that it has led to. */
static enum mt_err try_reach(struct reach *reach, int *out_fd)
{
	struct mt_walk *walk = &reach->walk;
	bool makes = !reach->followed || reach->makes_behind_links;
	enum mt_err error;
	int seen;

	reach->again = false;
	if (!mt_walk_to_last(walk))
		return refuse(reach);
	if (makes)
		*out_fd = openat(walk->folder, walk->name,
				 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, reach->mode);
	reach->made = makes && *out_fd >= 0;
	if (reach->made)
		return MT_ERR_OK;
	if (makes && errno != EEXIST)
		return refuse(reach);
	seen = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (seen < 0 && errno == ENOENT && makes) {
		/* gone since; what is there by the next turn is looked at then */
		reach->again = true;
		return MT_ERR_OK;
	}
	error = seen < 0 ? refuse(reach) : take(reach, seen, out_fd);
	if (seen >= 0)
		close(seen);
	return error;
}

/* Else the next start would find a part of it. It is removed where it was made: by the path it
 * might be another one by now. */
static enum mt_err fill(const struct reach *reach, int fd)
{
	size_t length = strlen(reach->text);
	enum mt_err error;

	if (write(fd, reach->text, length) == (ssize_t)length)
		return MT_ERR_OK;
	error = refuse(reach);
	(void)unlinkat(reach->walk.folder, reach->walk.name, 0);
	close(fd);
	return error;
}

static enum mt_err reach_file(struct reach *reach, int *out_fd)
{
	char text[2 * PATH_MAX];
	enum mt_err error = MT_ERR_OK;
	int fd = -1;

	reach->walk = (struct mt_walk){.call = ask_kernel,
				       .own = geteuid(),
				       .text = text,
				       .name = text,
				       .room = sizeof(text),
				       .folder = -1};
	errno = ENAMETOOLONG;
	if ((size_t)snprintf(text, sizeof(text), "%s", reach->path) >= sizeof(text))
		return refuse(reach);
	reach->again = true;
	for (unsigned i = 0; i < MT_WALK_LINKS_MAX + TRIES && reach->again && !error; i++)
		error = try_reach(reach, &fd);
	errno = EBUSY;
	if (!error && reach->again)
		error = refuse(reach);
	if (!error && reach->made && reach->text)
		error = fill(reach, fd);
	mt_walk_finish(&reach->walk);
	if (!error)
		*out_fd = fd;
	return error;
}

enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd, struct mt_why *why)
{
	struct reach reach = {.path = path,
			      .flags = O_WRONLY,
			      .mode = mode,
			      .makes_behind_links = true,
			      .why = why};
	struct stat file;
	int fd = -1;
	enum mt_err error = reach_file(&reach, &fd);

	if (error)
		return error;
	if (fstat(fd, &file) != 0 || (S_ISREG(file.st_mode) && ftruncate(fd, 0) != 0)) {
		error = refuse(&reach);
		close(fd);
		return error;
	}
	*out_fd = fd;
	return MT_ERR_OK;
}

enum mt_err mt_outfile_read_or_make(const char *path, mode_t mode, const char *text, bool *out_made,
				    int *out_fd, struct mt_why *why)
{
	struct reach reach = {.path = path,
			      .flags = O_RDONLY | O_NONBLOCK,
			      .mode = mode,
			      .text = text,
			      .why = why};
	enum mt_err error = reach_file(&reach, out_fd);

	if (!error)
		*out_made = reach.made;
	return error;
}
