/* ctl/process/stats_dir_check.c -- see stats_dir_check.h. */
#include "ctl/process/stats_dir_check.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "core/stats_layout.h"

/* The groups of the process are not asked for: what a group may write counts as writable. */
static bool may_make_in(int parent, const struct statfs *where, uid_t uid)
{
	struct stat status;

	if (where->f_flags & ST_RDONLY)
		return false;
	if (uid == 0 || fstat(parent, &status) != 0)
		return true;
	return status.st_mode & (status.st_uid == uid ? S_IWUSR : S_IWGRP | S_IWOTH);
}

const char *mt_stats_dir_check(int directory, int parent, uid_t uid)
{
	struct statfs where;
	struct stat status;

	if (directory < 0 && parent < 0)
		return "cannot be made: the directory above it does not exist";
	if (fstatfs(directory >= 0 ? directory : parent, &where) != 0)
		return NULL;
	if (!MT_STATS_IS_MEMORY(where.f_type))
		return "is not on a file system in memory (tmpfs)";
	if (directory < 0)
		return may_make_in(parent, &where, uid)
			       ? NULL
			       : "cannot be made: the directory above it is not writable";
	if (fstat(directory, &status) == 0 && status.st_mode & 077)
		return "is open to others (mode 700 is wanted)";
	return NULL;
}
