/* ctl/metrics/textfile.c -- see textfile.h. */
#include "ctl/metrics/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/text.h"

#define NAME_MAX_BYTES 200u

enum mt_err mt_textfile_check(const struct mt_textfile *file, struct mt_error_reason *why)
{
	size_t length = strlen(file->name);

	if (length > NAME_MAX_BYTES || strchr(file->name, '/') || *file->name == '.' ||
	    !mt_text_ends_with(file->name, ".prom"))
		return mt_error_because(why, MT_ERR_INVALID,
					"the name must be that of a file alone and end in .prom, "
					"which is what node_exporter reads");
	return MT_ERR_OK;
}

/* With a sticky bit (/tmp) others cannot replace our files. */
static enum mt_err open_directory(const char *path, int *out_fd, struct mt_error_reason *why)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &status) != 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if ((status.st_mode & S_IWOTH) && !(status.st_mode & S_ISVTX)) {
		close(fd);
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"%.200s: anybody may write there, and replace what we write", path);
	}
	*out_fd = fd;
	return MT_ERR_OK;
}

/* Checks what exists: nothing, or a file that may be replaced. */
static enum mt_err check_target(int directory, const struct mt_textfile *file,
				struct mt_error_reason *why)
{
	struct stat status;

	if (fstatat(directory, file->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? MT_ERR_OK
				       : mt_error_because(why, MT_ERR_SYSTEM, "%s: %s", file->name,
							  strerror(errno));
	if (!S_ISREG(status.st_mode))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"%s is there, and is a %s; it is left alone", file->name,
					S_ISLNK(status.st_mode) ? "symbolic link"
								: "thing that is no file");
	if (status.st_uid != geteuid())
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"%s is there, and belongs to another user; it is left alone", file->name);
	return MT_ERR_OK;
}

static bool write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t put = write(fd, text, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		text += put;
		bytes -= (size_t)put;
	}
	return true;
}

/* The temporary name has our pid: an existing file is left from a killed process with the same pid.
 */
static bool replace(int directory, const char *name, const char *text, size_t bytes)
{
	char temporary[NAME_MAX_BYTES + 32];
	bool done;
	int fd, kept;

	snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid());
	(void)unlinkat(directory, temporary, 0);
	fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return false;
	done = write_all(fd, text, bytes) && fchmod(fd, 0644) == 0;
	done = close(fd) == 0 && done && renameat(directory, temporary, directory, name) == 0;
	kept = errno;
	if (!done)
		(void)unlinkat(directory, temporary, 0);
	errno = kept;
	return done;
}

enum mt_err mt_textfile_write(const struct mt_textfile *file, const char *text, size_t bytes,
			      struct mt_error_reason *why)
{
	int directory;
	enum mt_err error = open_directory(file->directory, &directory, why);

	if (error)
		return error;
	error = check_target(directory, file, why);
	if (!error && !replace(directory, file->name, text, bytes))
		error = mt_error_because(why, MT_ERR_SYSTEM, "%.200s: cannot write %s: %s",
					 file->directory, file->name, strerror(errno));
	close(directory);
	return error;
}

void mt_textfile_remove(const struct mt_textfile *file)
{
	struct mt_error_reason why;
	int directory;

	if (open_directory(file->directory, &directory, &why) != MT_ERR_OK)
		return;
	if (check_target(directory, file, &why) == MT_ERR_OK)
		(void)unlinkat(directory, file->name, 0);
	close(directory);
}
