#include "ctl/output/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/path_walk.h"
#include "sys/os.h"

#define TRIES 10

/* One call: what is wanted, and what was found. */
struct opening {
	const char *path;
	struct mt_walk walk;
	int flags;        /* for an existing file */
	mode_t mode;      /* for a new file */
	const char *text; /* content of a new file; NULL: none */
	bool created, again;
	/* also creates the target of a last link; there was such a link */
	bool creates_link_targets, followed;
	struct mt_error_reason *why;
};

static enum mt_err refuse(const struct opening *opening)
{
	if (opening->walk.foreign)
		return mt_error_because(
			opening->why, MT_ERR_FOREIGN,
			"%.180s: a symbolic link in it is another user's; it is left alone",
			opening->path);
	return mt_error_because(opening->why, MT_ERR_SYSTEM, "%.200s: %s", opening->path,
				strerror(errno));
}

static enum mt_err check(const struct opening *opening, const struct stat *file)
{
	struct stat folder;

	if (fstat(opening->walk.folder, &folder) != 0)
		return refuse(opening);
	if (!S_ISREG(file->st_mode) && folder.st_uid != geteuid() &&
	    !mt_walk_is_roots(&opening->walk, folder.st_uid))
		return mt_error_because(opening->why, MT_ERR_FOREIGN,
					"%.150s is no regular file, in a folder of user %u; it is "
					"left alone",
					opening->path, (unsigned)folder.st_uid);
	if (mt_os_may_write(file, &folder, geteuid()))
		return MT_ERR_OK;
	return mt_error_because(opening->why, MT_ERR_FOREIGN,
				"%.150s belongs to user %u or has more than one name, and may be "
				"another user's doing; it is left alone",
				opening->path, (unsigned)file->st_uid);
}

/* Opens the very file that was checked. The open of a regular file waits only for a lease on it, 45
 * s by default (fcntl(2)); O_NONBLOCK avoids that. */
static enum mt_err reopen(const struct opening *opening, int found, bool is_regular, int *out_fd)
{
	int flags = opening->flags | (is_regular ? O_NONBLOCK : 0);
	char again[64];

	snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
	*out_fd = open(again, flags | O_NOCTTY | O_CLOEXEC);
	if (*out_fd < 0 && is_regular && errno == EWOULDBLOCK)
		return mt_error_because(opening->why, MT_ERR_SYSTEM,
					"%.180s: another process has a lease on it", opening->path);
	if (*out_fd < 0)
		return refuse(opening);
	(void)fcntl(*out_fd, F_SETFL, opening->flags);
	return MT_ERR_OK;
}

/* Opens what has the last name; `found` is an O_PATH descriptor of it. */
static enum mt_err open_existing(struct opening *opening, int found, int *out_fd)
{
	struct mt_walk *walk = &opening->walk;
	struct stat file;
	enum mt_err error;

	if (fstat(found, &file) != 0)
		return refuse(opening);
	if (!S_ISLNK(file.st_mode)) {
		error = check(opening, &file);
		return error ? error : reopen(opening, found, S_ISREG(file.st_mode), out_fd);
	}
	switch (mt_walk_follow(walk, found, NULL)) {
	case MT_WALK_ON:
		opening->again = opening->followed = true;
		return MT_ERR_OK;
	case MT_WALK_BY_KERNEL:
		*out_fd = openat(walk->folder, walk->name, opening->flags | O_NOCTTY | O_CLOEXEC);
		return *out_fd < 0 ? refuse(opening) : MT_ERR_OK;
	case MT_WALK_FAILED:
		break;
	}
	return refuse(opening);
}

/* One try, to the end of the path or of the link that it has led to. */
static enum mt_err try_open(struct opening *opening, int *out_fd)
{
	struct mt_walk *walk = &opening->walk;
	bool creates = !opening->followed || opening->creates_link_targets;
	enum mt_err error;
	int found;

	opening->again = false;
	if (!mt_walk_to_last(walk))
		return refuse(opening);
	if (creates)
		*out_fd = openat(walk->folder, walk->name,
				 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, opening->mode);
	opening->created = creates && *out_fd >= 0;
	if (opening->created)
		return MT_ERR_OK;
	if (creates && errno != EEXIST)
		return refuse(opening);
	found = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0 && errno == ENOENT && creates) {
		/* removed since: the next try finds what is there then */
		opening->again = true;
		return MT_ERR_OK;
	}
	error = found < 0 ? refuse(opening) : open_existing(opening, found, out_fd);
	if (found >= 0)
		close(found);
	return error;
}

/* Removes a file that cannot be written whole, else the next start would read a part of it. Removes
 * it by its directory: the path may lead to another file by now. */
static enum mt_err fill(const struct opening *opening, int fd)
{
	size_t length = strlen(opening->text);
	enum mt_err error;

	if (write(fd, opening->text, length) == (ssize_t)length)
		return MT_ERR_OK;
	error = refuse(opening);
	(void)unlinkat(opening->walk.folder, opening->walk.name, 0);
	close(fd);
	return error;
}

static enum mt_err open_path(struct opening *opening, int *out_fd)
{
	char text[2 * PATH_MAX];
	enum mt_err error = MT_ERR_OK;
	int fd = -1;

	opening->walk = (struct mt_walk){
		.own = geteuid(), .text = text, .name = text, .room = sizeof(text), .folder = -1};
	errno = ENAMETOOLONG;
	if ((size_t)snprintf(text, sizeof(text), "%s", opening->path) >= sizeof(text))
		return refuse(opening);
	opening->again = true;
	for (unsigned i = 0; i < MT_WALK_LINKS_MAX + TRIES && opening->again && !error; i++)
		error = try_open(opening, &fd);
	errno = EBUSY;
	if (!error && opening->again)
		error = refuse(opening);
	if (!error && opening->created && opening->text)
		error = fill(opening, fd);
	mt_walk_finish(&opening->walk);
	if (!error)
		*out_fd = fd;
	return error;
}

enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd, struct mt_error_reason *why)
{
	struct opening opening = {.path = path,
				  .flags = O_WRONLY,
				  .mode = mode,
				  .creates_link_targets = true,
				  .why = why};
	struct stat file;
	int fd = -1;
	enum mt_err error = open_path(&opening, &fd);

	if (error)
		return error;
	if (fstat(fd, &file) != 0 || (S_ISREG(file.st_mode) && ftruncate(fd, 0) != 0)) {
		error = refuse(&opening);
		close(fd);
		return error;
	}
	*out_fd = fd;
	return MT_ERR_OK;
}

enum mt_err mt_outfile_stream(const char *path, mode_t mode, FILE **out,
			      struct mt_error_reason *why)
{
	int fd = -1;
	enum mt_err error;

	if (strcmp(path, "-") == 0) {
		*out = stdout;
		return MT_ERR_OK;
	}
	error = mt_outfile_open(path, mode, &fd, why);
	if (!error)
		*out = mt_error_check_memory(fdopen(fd, "w"));
	return error;
}

void mt_outfile_remove(int fd, const char *path)
{
	struct stat written, now;
	int saved = errno;

	if (fstat(fd, &written) == 0 && S_ISREG(written.st_mode) && lstat(path, &now) == 0 &&
	    now.st_dev == written.st_dev && now.st_ino == written.st_ino)
		(void)unlink(path);
	errno = saved;
}

size_t mt_outfile_write(int fd, const void *bytes, size_t count)
{
	size_t done = 0;

	while (done < count) {
		ssize_t put = write(fd, (const char *)bytes + done, count - done);

		if (put == 0 || (put < 0 && errno != EINTR))
			break;
		done += put > 0 ? (size_t)put : 0;
	}
	return done;
}

enum mt_err mt_outfile_finish(FILE *file, const char *path, struct mt_error_reason *why)
{
	enum mt_err error = MT_ERR_OK;

	if (fflush(file) != 0 || ferror(file))
		error = mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if (error && file != stdout)
		mt_outfile_remove(fileno(file), path);
	if (file != stdout)
		fclose(file);
	return error;
}

enum mt_err mt_outfile_read_or_make(const char *path, mode_t mode, const char *text, bool *out_made,
				    int *out_fd, struct mt_error_reason *why)
{
	struct opening opening = {.path = path,
				  .flags = O_RDONLY | O_NONBLOCK,
				  .mode = mode,
				  .text = text,
				  .why = why};
	enum mt_err error = open_path(&opening, out_fd);

	if (!error)
		*out_made = opening.created;
	return error;
}
