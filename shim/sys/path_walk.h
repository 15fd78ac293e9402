/* sys/path_walk.h -- opens the directory of a named file without following a symbolic link that
 * another user made: that user can redirect the link between check and open. Follows links that
 * root or the caller's user owns, one at a time; the kernel follows those of /proc, many of which
 * lead to open files. core/log.c in the shim and ctl/output/outfile.c in mtctl use these inline
 * functions, since the two share no objects and make system calls in different ways. Any thread may
 * call. Owns no state but struct mt_walk. Takes no lock, never allocates. Sets errno. */
#ifndef MT_SYS_PATH_WALK_H
#define MT_SYS_PATH_WALK_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define MT_WALK_LINKS_MAX  40u    /* as the kernel's own; path_resolution(7) */
#define MT_WALK_PROC_MAGIC 0x9fa0 /* linux/magic.h */

/* Makes a system call with six arguments; returns as syscall(2). */
typedef long (*mt_walk_call)(long number, long a, long b, long c, long d, long e, long f);

struct mt_walk {
	mt_walk_call call;
	uid_t own;  /* whose links are followed, besides root's */
	char *text; /* the path, in the caller's buffer of `room` bytes */
	size_t room;
	int folder;     /* directory reached so far; the walk closes it */
	char *name;     /* in `text`: the rest of the path */
	unsigned links; /* followed so far */
	bool foreign;   /* it ended at another user's link */
};

enum mt_walk_end { MT_WALK_FAILED, MT_WALK_ON, MT_WALK_BY_KERNEL };

static inline long mt_walk_open(const struct mt_walk *walk, int folder, const char *name, int flags)
{
	return walk->call(SYS_openat, folder, (long)(uintptr_t)name, flags | O_CLOEXEC, 0, 0, 0);
}

static inline int mt_walk_fstat(const struct mt_walk *walk, int fd, struct stat *out)
{
	return (int)walk->call(SYS_fstat, fd, (long)(uintptr_t)out, 0, 0, 0, 0);
}

static inline void mt_walk_close(const struct mt_walk *walk, int fd)
{
	int kept = errno;

	if (fd >= 0)
		(void)walk->call(SYS_close, fd, 0, 0, 0, 0, 0);
	errno = kept;
}

/* Makes fd the current directory of the walk, which closes the old one. */
static inline bool mt_walk_enter(struct mt_walk *walk, long fd)
{
	if (fd < 0)
		return false;
	mt_walk_close(walk, walk->folder);
	walk->folder = (int)fd;
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
	return mt_walk_enter(
		walk, mt_walk_open(walk, AT_FDCWD, absolute ? "/" : ".", O_PATH | O_DIRECTORY));
}

/* Replaces the path by the link's target, followed by `rest`; NULL: no rest. */
static inline bool mt_walk_splice(struct mt_walk *walk, int link, const char *rest)
{
	size_t rest_bytes = rest ? strlen(rest) + 1 : 0;
	size_t room = walk->room - rest_bytes;
	char *kept = walk->text + room;
	long length;

	memmove(kept, rest ? rest : kept, rest_bytes);
	length = walk->call(SYS_readlinkat, link, (long)(uintptr_t) "", (long)(uintptr_t)walk->text,
			    (long)room, 0, 0);
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
	long root;
	bool known;

	if (owner == 0)
		return true;
	root = mt_walk_open(walk, AT_FDCWD, "/", O_PATH | O_DIRECTORY);
	known = root >= 0 && mt_walk_fstat(walk, (int)root, &top) == 0 &&
		mt_walk_fstat(walk, walk->folder, &folder) == 0;
	mt_walk_close(walk, (int)root);
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

	if (mt_walk_fstat(walk, link, &seen) != 0 ||
	    walk->call(SYS_fstatfs, link, (long)(uintptr_t)&system, 0, 0, 0, 0) != 0)
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
	long fd = mt_walk_open(walk, walk->folder, walk->name, O_PATH | O_NOFOLLOW);
	enum mt_walk_end end = MT_WALK_ON;
	struct stat seen;
	int link;

	if (fd < 0 || mt_walk_fstat(walk, (int)fd, &seen) != 0 || !S_ISLNK(seen.st_mode)) {
		walk->name = rest;
		return mt_walk_enter(walk, fd);
	}
	link = (int)fd;
	end = mt_walk_follow(walk, link, rest);
	mt_walk_close(walk, link);
	if (end != MT_WALK_BY_KERNEL)
		return end == MT_WALK_ON;
	fd = mt_walk_open(walk, walk->folder, walk->name, O_PATH);
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
	mt_walk_close(walk, walk->folder);
	walk->folder = -1;
}

/* Returns whether the user `own` may write to a file without being tricked. folder: the directory
 * of its name. Pure. In a folder that others can write to, or that another user owns, a hard link
 * may lead to a file that must not change. In a folder that everybody can write to, another user
 * may own the file, to read the output. The owner of a folder for a group is trusted with its
 * files. The group bits are also the mask of an ACL, so no group counts as private. In other
 * folders the owner of the file does not matter: a network file system may map this user to
 * nobody. */
static inline bool mt_walk_may_write(const struct stat *file, const struct stat *folder, uid_t own)
{
	bool everybodys = folder->st_mode & S_IWOTH, shared = folder->st_mode & (S_IWOTH | S_IWGRP);
	bool ours = folder->st_uid == own || folder->st_uid == 0;

	if (!shared && ours)
		return true;
	if (S_ISREG(file->st_mode) && file->st_nlink != 1)
		return false;
	return !shared || file->st_uid == own || file->st_uid == 0 ||
	       (!everybodys && file->st_uid == folder->st_uid);
}

#endif
