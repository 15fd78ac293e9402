#include "ctl/process/cgroup_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/foreign_path.h"
#include "ctl/process/read_file.h"

/* Walks the path name by name, with O_PATH and O_NOFOLLOW: a symbolic link gives a descriptor of
 * the link, below which no name exists. A lookup in /proc may wait for a process, so none is made.
 * RESOLVE_NO_SYMLINKS of openat2(2) needs Linux 5.6, and some containers forbid the call. */
static int walk(int at, char *path)
{
	char *saved = NULL;

	for (char *name = strtok_r(path, "/", &saved); name && at >= 0;
	     name = strtok_r(NULL, "/", &saved)) {
		int next = mt_foreign_path_is_proc(at)
				   ? -1
				   : openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		close(at);
		at = next;
	}
	return at;
}

static bool is_of_cgroup(int fd)
{
	struct stat file;
	struct statfs system;

	if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || fstatfs(fd, &system) != 0)
		return false;
	switch ((unsigned)system.f_type) {
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
		return true;
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return file.st_uid == geteuid();
	default:
		return false;
	}
}

/* Returns an O_PATH descriptor of the file, -1 where there is none. */
static int find(const char *path)
{
	char text[3 * PATH_MAX], *rest = text;
	int root = 0, fd;

	if (*path != '/' || (size_t)snprintf(text, sizeof(text), "%s", path) >= sizeof(text))
		return -1;
	if (sscanf(text, "/proc/%*u/root%n", &root) == 0 && root && text[root] == '/') {
		text[root] = '\0';
		rest = text + root + 1;
	}
	fd = walk(open(root && rest != text ? text : "/", O_PATH | O_DIRECTORY | O_CLOEXEC), rest);
	if (fd < 0 || is_of_cgroup(fd))
		return fd;
	close(fd);
	return -1;
}

bool mt_cgroup_file_exists(const char *path)
{
	int fd = find(path);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

char *mt_cgroup_file_read(const char *path)
{
	int fd = find(path);
	char seen[64], *text;

	if (fd < 0)
		return NULL;
	snprintf(seen, sizeof(seen), "/proc/self/fd/%d", fd);
	text = mt_read_file_first(seen, MT_CGROUP_FILE_MAX, NULL);
	close(fd);
	return text;
}

bool mt_cgroup_file_number(const char *directory, const char *file, const char *key, uint64_t *out)
{
	char path[3 * PATH_MAX];
	char *text;
	bool is_number;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	text = mt_cgroup_file_read(path);
	if (text && !key)
		text[strcspn(text, "\n")] = '\0';
	is_number =
		text && (key ? mt_read_file_number(text, key, out) : mt_text_parse_u64(text, out));
	free(text);
	return is_number;
}
