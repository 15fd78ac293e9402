#include "ctl/output/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sys/os.h"

/* ---- the way to a file ---- */

/* Opens the directory of a named file without following a symbolic link that another user made:
 * that user can redirect the link between check and open. Follows links that root or the caller's
 * user owns, one at a time; the kernel follows those of /proc, many of which lead to open files.
 * Owns no state but struct walk. Sets errno. */

#define WALK_LINKS_MAX  40u    /* as the kernel's own; path_resolution(7) */
#define WALK_PROC_MAGIC 0x9fa0 /* linux/magic.h */

struct walk {
	uid_t own;  /* whose links are followed, besides root's */
	char *text; /* the path, in the caller's buffer of `room` bytes */
	size_t room;
	int folder;     /* directory reached so far; the walk closes it */
	char *name;     /* in `text`: the rest of the path */
	unsigned links; /* followed so far */
	bool foreign;   /* it ended at another user's link */
};

enum walk_end { WALK_FAILED, WALK_ON, WALK_BY_KERNEL };

static int walk_open(int folder, const char *name, int flags)
{
	return openat(folder, name, flags | O_CLOEXEC);
}

static void walk_close(int fd)
{
	int kept = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = kept;
}

/* Makes fd the current directory of the walk, which closes the old one. */
static bool walk_enter(struct walk *walk, int fd)
{
	if (fd < 0)
		return false;
	walk_close(walk->folder);
	walk->folder = fd;
	return true;
}

/* Opens the directory at which the path begins and skips its slashes. */
static bool walk_start(struct walk *walk)
{
	bool absolute = *walk->name == '/';

	while (*walk->name == '/')
		walk->name++;
	if (!absolute && walk->folder >= 0)
		return true;
	return walk_enter(walk, walk_open(AT_FDCWD, absolute ? "/" : ".", O_PATH | O_DIRECTORY));
}

/* Replaces the path by the link's target, followed by `rest`; NULL: no rest. */
static bool walk_splice(struct walk *walk, int link, const char *rest)
{
	size_t rest_bytes = rest ? strlen(rest) + 1 : 0;
	size_t room = walk->room - rest_bytes;
	char *kept = walk->text + room;
	long length;

	memmove(kept, rest ? rest : kept, rest_bytes);
	length = readlinkat(link, "", walk->text, room);
	if (length <= 0 || (size_t)length >= room) {
		errno = length < 0 ? errno : ENAMETOOLONG;
		return false;
	}
	walk->text[length] = rest ? '/' : '\0';
	memmove(walk->text + length + 1, kept, rest_bytes);
	walk->name = walk->text;
	return true;
}

/* Returns whether owner is root as this user namespace shows it. If root has no mapping, the
 * owner of "/" stands for it, and so do all other unmapped users: then the folder must not let
 * others make links in it. */
static bool walk_is_roots(const struct walk *walk, uid_t owner)
{
	struct stat top;
	struct stat folder;
	int root;
	bool known;

	if (owner == 0)
		return true;
	root = walk_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
	known = root >= 0 && fstat(root, &top) == 0 && fstat(walk->folder, &folder) == 0;
	walk_close(root);
	return known && top.st_uid == owner && !(folder.st_mode & (S_IWOTH | S_IWGRP));
}

/* Follows a link. link: an O_PATH descriptor of the entry walk->name. Returns ON if the path
 * goes on with the link's target, BY_KERNEL for a link of /proc, which the kernel follows when the
 * entry is opened. Returns FAILED with errno; EPERM with walk->foreign if another user owns the
 * link, or if it has a second hard link. */
static enum walk_end walk_follow(struct walk *walk, int link, const char *rest)
{
	struct stat seen;
	struct statfs system;

	if (fstat(link, &seen) != 0 || fstatfs(link, &system) != 0)
		return WALK_FAILED;
	errno = ELOOP;
	if (++walk->links > WALK_LINKS_MAX)
		return WALK_FAILED;
	walk->foreign = (seen.st_uid != walk->own && !walk_is_roots(walk, seen.st_uid)) ||
			seen.st_nlink > 1;
	errno = EPERM;
	if (walk->foreign)
		return WALK_FAILED;
	if (system.f_type == WALK_PROC_MAGIC)
		return WALK_BY_KERNEL;
	return walk_splice(walk, link, rest) && walk_start(walk) ? WALK_ON : WALK_FAILED;
}

/* Enters the directory walk->name; `rest` is the path after it. */
static bool walk_step(struct walk *walk, char *rest)
{
	int fd = walk_open(walk->folder, walk->name, O_PATH | O_NOFOLLOW);
	enum walk_end end = WALK_ON;
	struct stat seen;
	int link;

	if (fd < 0 || fstat(fd, &seen) != 0 || !S_ISLNK(seen.st_mode)) {
		walk->name = rest;
		return walk_enter(walk, fd);
	}
	link = fd;
	end = walk_follow(walk, link, rest);
	walk_close(link);
	if (end != WALK_BY_KERNEL)
		return end == WALK_ON;
	fd = walk_open(walk->folder, walk->name, O_PATH);
	walk->name = rest;
	return walk_enter(walk, fd);
}

/* Walks until one name is left: walk->name, in the directory walk->folder. The caller sets
 * own, text to a path, room, name = text and folder = -1. Returns false with errno on failure. Call
 * walk_finish in both cases. */
static bool walk_to_last(struct walk *walk)
{
	char *slash;

	if (!walk_start(walk))
		return false;
	while ((slash = strchr(walk->name, '/'))) {
		*slash++ = '\0';
		while (*slash == '/')
			slash++;
		if (!walk_step(walk, slash))
			return false;
	}
	return true;
}

/* Closes the directory. */
static void walk_finish(struct walk *walk)
{
	walk_close(walk->folder);
	walk->folder = -1;
}

/* ---- the file ---- */

#define TRIES 10

/* One call: what is wanted, and what was found. */
struct opening {
	const char *path;
	struct walk walk;
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
	    !walk_is_roots(&opening->walk, folder.st_uid))
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
	struct walk *walk = &opening->walk;
	struct stat file;
	enum mt_err error;

	if (fstat(found, &file) != 0)
		return refuse(opening);
	if (!S_ISLNK(file.st_mode)) {
		error = check(opening, &file);
		return error ? error : reopen(opening, found, S_ISREG(file.st_mode), out_fd);
	}
	switch (walk_follow(walk, found, NULL)) {
	case WALK_ON:
		opening->again = opening->followed = true;
		return MT_ERR_OK;
	case WALK_BY_KERNEL:
		*out_fd = openat(walk->folder, walk->name, opening->flags | O_NOCTTY | O_CLOEXEC);
		return *out_fd < 0 ? refuse(opening) : MT_ERR_OK;
	case WALK_FAILED:
		break;
	}
	return refuse(opening);
}

/* One try, to the end of the path or of the link that it has led to. */
static enum mt_err try_open(struct opening *opening, int *out_fd)
{
	struct walk *walk = &opening->walk;
	bool creates = !opening->followed || opening->creates_link_targets;
	enum mt_err error;
	int found;

	opening->again = false;
	if (!walk_to_last(walk))
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

	opening->walk = (struct walk){
		.own = geteuid(), .text = text, .name = text, .room = sizeof(text), .folder = -1};
	errno = ENAMETOOLONG;
	if ((size_t)snprintf(text, sizeof(text), "%s", opening->path) >= sizeof(text))
		return refuse(opening);
	opening->again = true;
	for (unsigned i = 0; i < WALK_LINKS_MAX + TRIES && opening->again && !error; i++)
		error = try_open(opening, &fd);
	errno = EBUSY;
	if (!error && opening->again)
		error = refuse(opening);
	if (!error && opening->created && opening->text)
		error = fill(opening, fd);
	walk_finish(&opening->walk);
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
