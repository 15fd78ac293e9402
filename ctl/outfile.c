/* ctl/outfile.c -- see outfile.h. */
#include "ctl/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 10

static bool anybody_may_make_files_beside(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) + (slash == path) : 0;
	char folder[PATH_MAX] = ".";
	struct stat status;

	if (length >= sizeof(folder))
		return true;
	if (slash) {
		memcpy(folder, path, length);
		folder[length] = '\0';
	}
	return stat(folder, &status) != 0 || (status.st_mode & S_IWOTH);
}

/* Where the folder has the sticky bit, nobody else can put another thing into the place of one that is ours or root's: so what
 * was looked at is what is opened. */
static bool is_trusted(const char *path)
{
	struct stat seen;

	if (lstat(path, &seen) != 0)
		return false;
	if ((seen.st_uid == geteuid() || seen.st_uid == 0) && (!S_ISREG(seen.st_mode) || seen.st_nlink == 1))
		return true;
	return !anybody_may_make_files_beside(path);
}

static bool is_there(const char *path)
{
	struct stat seen;

	return lstat(path, &seen) == 0 || errno != ENOENT;
}

static int make_new(const char *path, mode_t mode)
{
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, mode);
}

enum mt_err mt_outfile_open(const char *path, mode_t mode, int *out_fd, struct mt_why *why)
{
	int fd = make_new(path, mode);

	/* What is gone again when it is looked at is made anew, as a file that must be new: another thing may be there by then. */
	for (int i = 1; i < TRIES && fd < 0 && errno == EEXIST && !is_there(path); i++)
		fd = make_new(path, mode);
	if (fd < 0 && errno == EEXIST) {
		if (!is_trusted(path))
			return mt_error_because(why, MT_ERR_FOREIGN,
						"%.200s is there, and may be another user's doing; it is left alone", path);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, mode);
	}
	if (fd < 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	*out_fd = fd;
	return MT_ERR_OK;
}
