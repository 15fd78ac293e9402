#include "ctl/process/limit.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ctl/process/read_file.h"
#include "core/cgroup.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* ---- files of a cgroup ---- */

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

/* Returns a descriptor for reading, -1 if there is no such file. Nothing but a file of a cgroup is
 * opened for more than its name. */
static int open_in_cgroup(const char *path)
{
	char text[3 * PATH_MAX], seen[64], *rest = text;
	int root = 0, fd, file = -1;

	if (*path != '/' || (size_t)snprintf(text, sizeof(text), "%s", path) >= sizeof(text))
		return -1;
	if (sscanf(text, "/proc/%*u/root%n", &root) == 0 && root && text[root] == '/') {
		text[root] = '\0';
		rest = text + root + 1;
	}
	fd = walk(open(root && rest != text ? text : "/", O_PATH | O_DIRECTORY | O_CLOEXEC), rest);
	snprintf(seen, sizeof(seen), "/proc/self/fd/%d", fd);
	if (fd >= 0 && is_of_cgroup(fd))
		file = open(seen, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return file;
}

/* Opens an absolute path. One that begins with "/proc/PID/root" is resolved from the root directory
 * of that process. */
char *mt_cgroup_file_read(const char *path)
{
	char *text = mt_error_check_memory(malloc(MT_CGROUP_FILE_MAX));

	if (mt_os_read_and_close(open_in_cgroup(path), text, MT_CGROUP_FILE_MAX) >= 0)
		return text;
	free(text);
	return NULL;
}

bool mt_cgroup_file_number(const char *directory, const char *file, const char *key, uint64_t *out)
{
	char path[3 * PATH_MAX];
	char *text;
	bool is_number;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	text = mt_cgroup_file_read(path);
	is_number = text &&
		    (key ? mt_read_file_number(text, key, out) : mt_cgroup_path_number(text, out));
	free(text);
	return is_number;
}

/* ---- limits ---- */

/* Reads the cgroups of a process, or those that `directory` (may be NULL) names, by the shim's own
 * reader. */
static void read_cgroups(const struct mt_limit_request *request, struct mt_cgroup_sample *out)
{
	static struct mt_config config;

	config.limit_mb = request->limit_mb;
	config.cgroup[0] = '\0';
	if (request->directory)
		snprintf(config.cgroup, sizeof(config.cgroup), "%s", request->directory);
	mt_cgroup_path_open_by(open_in_cgroup);
	mt_cgroup_of(request->pid);
	mt_cgroup_read(request->root, &config, 0, 0, out);
	if (request->directory) /* the shim takes no MT_CGROUP that is empty or longer */
		out->is_without_given |=
			!*request->directory || strlen(request->directory) >= sizeof(config.cgroup);
}

enum mt_err mt_limit_find_by(const struct mt_limit_request *request, struct mt_limit *out)
{
	struct mt_cgroup_sample sample;

	read_cgroups(request, &sample);
	if (sample.is_without_given)
		return MT_ERR_INVALID;
	if (!sample.limit_bytes)
		return MT_ERR_SYSTEM;
	*out = (struct mt_limit){.used_bytes = sample.used_bytes,
				 .limit_bytes = sample.limit_bytes,
				 .is_cgroup = sample.is_cgroup};
	snprintf(out->source, sizeof(out->source), "%s", sample.source);
	return MT_ERR_OK;
}

enum mt_err mt_limit_find(const char *root, pid_t pid, struct mt_limit *out)
{
	return mt_limit_find_by(&(struct mt_limit_request){.root = root, .pid = pid}, out);
}

enum mt_err mt_limit_find_in(const char *root, const char *directory, struct mt_limit *out)
{
	return mt_limit_find_by(&(struct mt_limit_request){.root = root, .directory = directory},
				out);
}

bool mt_limit_used_in(const char *root, const char *directory, uint64_t *out)
{
	const struct mt_limit_request request = {.root = root, .directory = directory};
	char found[PATH_MAX];
	struct mt_cgroup_sample sample;

	read_cgroups(&request, &sample);
	return !sample.is_without_given && mt_cgroup_used(out, found, sizeof(found));
}

bool mt_limit_cgroup_directory(const char *root, pid_t pid, char *out, size_t out_bytes)
{
	struct mt_cgroup_sample sample;

	read_cgroups(&(struct mt_limit_request){.root = root, .pid = pid}, &sample);
	snprintf(out, out_bytes, "%s", mt_cgroup_directory());
	return *out;
}

bool mt_limit_memory_directory(const char *root, pid_t pid, char *out, size_t out_bytes)
{
	struct mt_cgroup_sample sample;
	uint64_t used;

	read_cgroups(&(struct mt_limit_request){.root = root, .pid = pid}, &sample);
	return mt_cgroup_used(&used, out, out_bytes);
}

/* ---- the machine ---- */

uint64_t mt_limit_meminfo(const char *root, const char *key)
{
	uint64_t bytes = 0;

	(void)mt_cgroup_meminfo(root, key, &bytes);
	return bytes;
}

uint64_t mt_limit_machine_used(const char *root)
{
	return mt_sat_sub(mt_limit_meminfo(root, "MemTotal:"),
			  mt_limit_meminfo(root, "MemAvailable:"));
}

double mt_limit_percent(const struct mt_limit *memory)
{
	return memory->limit_bytes
		       ? 100.0 * (double)memory->used_bytes / (double)memory->limit_bytes
		       : 0;
}
