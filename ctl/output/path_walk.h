/* ctl/output/path_walk.h -- opens the directory of a named file without following a symbolic link
 * that another user made: that user can redirect the link between check and open. Follows links
 * that root or the caller's user owns, one at a time; the kernel follows those of /proc, many of
 * which lead to open files. Any thread may call. Owns no state but struct mt_walk. Takes no lock,
 * never allocates. Sets errno. */
#ifndef MT_CTL_OUTPUT_PATH_WALK_H
#define MT_CTL_OUTPUT_PATH_WALK_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MT_WALK_LINKS_MAX  40u    /* as the kernel's own; path_resolution(7) */
#define MT_WALK_PROC_MAGIC 0x9fa0 /* linux/magic.h */

struct mt_walk {
	uid_t own;  /* whose links are followed, besides root's */
	char *text; /* the path, in the caller's buffer of `room` bytes */
	size_t room;
	int folder;     /* directory reached so far; the walk closes it */
	char *name;     /* in `text`: the rest of the path */
	unsigned links; /* followed so far */
	bool foreign;   /* it ended at another user's link */
};

enum mt_walk_end { MT_WALK_FAILED, MT_WALK_ON, MT_WALK_BY_KERNEL };

static inline int mt_walk_open(int folder, const char *name, int flags)
{
	return openat(folder, name, flags | O_CLOEXEC);
}

static inline void mt_walk_close(int fd)
{
	int kept = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = kept;
}

/* Makes fd the current directory of the walk, which closes the old one. */
static inline bool mt_walk_enter(struct mt_walk *walk, int fd)
{
	if (fd < 0)
		return false;
	mt_walk_close(walk->folder);
	walk->folder = fd;
	return true;
}

/* Opens the directory at which the path begins and skips its slashes. */
static inline bool mt_walk_start(struct mt_walk *walk)
{
	bool absolute = *walk->name == '/';

	while (*walk->name == '/')
		walk->name++;
	if (!absolute && walk->folder >= 0)
		return true;
	return mt_walk_enter(walk,
			     mt_walk_open(AT_FDCWD, absolute ? "/" : ".", O_PATH | O_DIRECTORY));
}

/* Replaces the path by the link's target, followed by `rest`; NULL: no rest. */
static inline bool mt_walk_splice(struct mt_walk *walk, int link, const char *rest)
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
static inline bool mt_walk_is_roots(const struct mt_walk *walk, uid_t owner)
{
	struct stat top;
	struct stat folder;
	int root;
	bool known;

	if (owner == 0)
		return true;
	root = mt_walk_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
	known = root >= 0 && fstat(root, &top) == 0 && fstat(walk->folder, &folder) == 0;
	mt_walk_close(root);
	return known && top.st_uid == owner && !(folder.st_mode & (S_IWOTH | S_IWGRP));
}

/* Follows a link. link: an O_PATH descriptor of the entry walk->name. Returns ON if the path
 * goes on with the link's target, BY_KERNEL for a link of /proc, which the kernel follows when the
 * entry is opened. Returns FAILED with errno; EPERM with walk->foreign if another user owns the
 * link, or if it has a second hard link. */
static inline enum mt_walk_end mt_walk_follow(struct mt_walk *walk, int link, const char *rest)
{
	struct stat seen;
	struct statfs system;

	if (fstat(link, &seen) != 0 || fstatfs(link, &system) != 0)
		return MT_WALK_FAILED;
	errno = ELOOP;
	if (++walk->links > MT_WALK_LINKS_MAX)
		return MT_WALK_FAILED;
	walk->foreign = (seen.st_uid != walk->own && !mt_walk_is_roots(walk, seen.st_uid)) ||
			seen.st_nlink > 1;
	errno = EPERM;
	if (walk->foreign)
		return MT_WALK_FAILED;
	if (system.f_type == MT_WALK_PROC_MAGIC)
		return MT_WALK_BY_KERNEL;
	return mt_walk_splice(walk, link, rest) && mt_walk_start(walk) ? MT_WALK_ON
								       : MT_WALK_FAILED;
}

/* Enters the directory walk->name; `rest` is the path after it. */
static inline bool mt_walk_step(struct mt_walk *walk, char *rest)
{
	int fd = mt_walk_open(walk->folder, walk->name, O_PATH | O_NOFOLLOW);
	enum mt_walk_end end = MT_WALK_ON;
	struct stat seen;
	int link;

	if (fd < 0 || fstat(fd, &seen) != 0 || !S_ISLNK(seen.st_mode)) {
		walk->name = rest;
		return mt_walk_enter(walk, fd);
	}
	link = fd;
	end = mt_walk_follow(walk, link, rest);
	mt_walk_close(link);
	if (end != MT_WALK_BY_KERNEL)
		return end == MT_WALK_ON;
	fd = mt_walk_open(walk->folder, walk->name, O_PATH);
	walk->name = rest;
	return mt_walk_enter(walk, fd);
}

/* Walks until one name is left: walk->name, in the directory walk->folder. The caller sets call,
 * own, text to a path, room, name = text and folder = -1. Returns false with errno on failure. Call
 * mt_walk_finish in both cases. */
static inline bool mt_walk_to_last(struct mt_walk *walk)
{
	char *slash;

	if (!mt_walk_start(walk))
		return false;
	while ((slash = strchr(walk->name, '/'))) {
		*slash++ = '\0';
		while (*slash == '/')
			slash++;
		if (!mt_walk_step(walk, slash))
			return false;
	}
	return true;
}

/* Closes the directory. */
static inline void mt_walk_finish(struct mt_walk *walk)
{
	mt_walk_close(walk->folder);
	walk->folder = -1;
}

#endif
