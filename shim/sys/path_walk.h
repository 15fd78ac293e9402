/* sys/path_walk.h -- the way to a file that somebody has named, without following a symbolic link
 * that another user has made: such a link may lead anywhere by the time it is followed. Its users,
 * core/log.c in the shim and ctl/outfile.c in mtctl, share no objects and reach the kernel in
 * different ways. Any thread may call. Nothing is allocated; sets errno. Links of root's and of
 * one's own are followed, one after the other, each from the folder that was looked at; those of
 * /proc, many of which lead to open files, are followed by the kernel. */
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

/* A system call with six arguments, as syscall(2) answers it. */
typedef long (*mt_walk_call)(long number, long a, long b, long c, long d, long e, long f);

struct mt_walk {
	mt_walk_call call;
	uid_t own;  /* whose links are followed, beside root's */
	char *text; /* the path, and room for what its links add to it; the caller's */
	size_t room;
	int folder;     /* so far; the walk closes it */
	char *name;     /* in `text`: what is left to go from there */
	unsigned links; /* followed so far */
	bool foreign;   /* it ended at a link of another user's */
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

/* The walk takes the descriptor over. */
static inline bool mt_walk_enter(struct mt_walk *walk, long fd)
{
	if (fd < 0)
		return false;
	mt_walk_close(walk, walk->folder);
	walk->folder = (int)fd;
	return true;
}

/* To where the path begins, behind its slashes. */
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

/* Puts what the link says before `rest`, NULL where nothing follows. */
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

/* Root, as seen from here: in a user namespace that does not know root, all that is root's belongs
 * to who owns "/", and so does what is others': there the folder must be one in which not everybody
 * may make links. */
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

/* From a link, an O_PATH descriptor of the entry walk->name. ON: the path goes on with what it
 * says. BY_KERNEL: it is one of /proc, and may lead to what has no path; the kernel follows it
 * where the entry is opened. FAILED: EPERM and walk->foreign where it is another user's, or has a
 * name beside one that root or the caller gave it. */
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

/* Into the folder that walk->name is; `rest` follows it. */
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

/* Goes on until one name is left: walk->name, in walk->folder. A new walk has call, own, text with
 * a path, room, name = text, and folder = -1. false: errno says why. mt_walk_end in both cases. */
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

static inline void mt_walk_finish(struct mt_walk *walk)
{
	mt_walk_close(walk, walk->folder);
	walk->folder = -1;
}

/* Whether a file may be written into, by who may be out for it: `folder` is where its name is,
 * `own` the writer. Pure. In a folder where others may make files, its group or everybody, and in
 * one of another user's, a second name may have been given to a file that is to be lost. In the
 * first a file of another user's is there to be read by that user; but the owner of a group's
 * folder is trusted with what is in it, as where the folder is that user's alone. The group's bits
 * are the mask of an ACL, too, so that no group is taken for a private one. Elsewhere the owner
 * says little: a network file system may call us nobody. */
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
