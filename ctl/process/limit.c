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

#include "core/cgroup_path.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

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

/* Returns an O_PATH descriptor of the file, -1 if there is none. */
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

/* Returns whether the file exists. `path` is absolute. A path that begins with "/proc/PID/root" is
 * resolved from the root directory of that process. Never opens the file. */
static bool cgroup_file_exists(const char *path)
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

struct version {
	const char *controller, *usage, *inactive;
	const char *limits[2];
};

static const struct version versions[] = {
	{NULL, "memory.current", "inactive_file", {"memory.max", "memory.high"}},
	{"memory", "memory.usage_in_bytes", "total_inactive_file", {"memory.limit_in_bytes", NULL}},
};
#define VERSIONS_COUNT (sizeof(versions) / sizeof(versions[0]))

uint64_t mt_limit_meminfo(const char *root, const char *key)
{
	char path[PATH_MAX];
	uint64_t kilobytes = 0;
	char *text;

	snprintf(path, sizeof(path), "%.4000s/proc/meminfo", root);
	text = mt_read_file(path, NULL);
	if (!text || !mt_read_file_number(text, key, &kilobytes))
		kilobytes = 0;
	free(text);
	return kilobytes * 1024;
}

static bool has_file(const char *directory, const char *file)
{
	char path[MT_CGROUP_PATH_BYTES + 64];

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	return cgroup_file_exists(path);
}

static bool read_used(const struct version *version, const char *directory, uint64_t *out)
{
	uint64_t inactive = 0;

	if (!mt_cgroup_file_number(directory, version->usage, NULL, out))
		return false;
	(void)mt_cgroup_file_number(directory, "memory.stat", version->inactive, &inactive);
	*out -= inactive < *out ? inactive : *out;
	return true;
}

double mt_limit_percent(const struct mt_limit *memory)
{
	return memory->limit_bytes
		       ? 100.0 * (double)memory->used_bytes / (double)memory->limit_bytes
		       : 0;
}

/* Reads the limits of one directory. *out changes if one of them is nearer to being reached.
 * Version 1 writes nearly 2^63 for "no limit", so a limit above the machine's memory is none. */
static void read_limits(const struct version *version, const char *directory,
			uint64_t machine_bytes, struct mt_limit *out)
{
	struct mt_limit here = {.is_cgroup = true};

	if (!read_used(version, directory, &here.used_bytes))
		return;
	for (size_t i = 0; i < 2 && version->limits[i]; i++) {
		if (!mt_cgroup_file_number(directory, version->limits[i], NULL,
					   &here.limit_bytes) ||
		    !here.limit_bytes || (machine_bytes && here.limit_bytes >= machine_bytes))
			continue;
		if (out->is_cgroup && mt_limit_percent(&here) <= mt_limit_percent(out))
			continue;
		*out = here;
		snprintf(out->source, sizeof(out->source), "%.480s/%s", directory,
			 version->limits[i]);
	}
}

uint64_t mt_limit_machine_used(const char *root)
{
	uint64_t total = mt_limit_meminfo(root, "MemTotal"),
		 available = mt_limit_meminfo(root, "MemAvailable");

	return total > available ? total - available : 0;
}

static struct mt_limit machine_limit(const char *root)
{
	return (struct mt_limit){.source = "/proc/meminfo",
				 .limit_bytes = mt_limit_meminfo(root, "MemTotal"),
				 .used_bytes = mt_limit_machine_used(root)};
}

/* The version of the cgroup that this directory is; NULL: it is none. */
static const struct version *version_of(const char *directory)
{
	for (size_t i = 0; i < VERSIONS_COUNT; i++)
		if (has_file(directory, versions[i].usage))
			return &versions[i];
	return NULL;
}

bool mt_limit_used_in(const char *root, const char *directory, uint64_t *out)
{
	struct mt_cgroup_path cgroup;
	const struct version *version = mt_cgroup_path_given(root, directory, &cgroup)
						? version_of(cgroup.directory)
						: NULL;

	return version && read_used(version, cgroup.directory, out);
}

enum mt_err mt_limit_find_in(const char *root, const char *directory, struct mt_limit *out)
{
	struct mt_limit machine = machine_limit(root), nearest = {0};
	struct mt_cgroup_path cgroup;
	const struct version *version = mt_cgroup_path_given(root, directory, &cgroup)
						? version_of(cgroup.directory)
						: NULL;

	if (!version)
		return MT_ERR_INVALID;
	/* Up to the last directory that is a cgroup. */
	for (size_t length = cgroup.length; length && has_file(cgroup.directory, version->usage);) {
		read_limits(version, cgroup.directory, machine.limit_bytes, &nearest);
		length = mt_cgroup_path_parent(&cgroup, length);
		cgroup.directory[length] = '\0';
	}
	*out = nearest.is_cgroup ? nearest : machine;
	return MT_ERR_OK;
}

static bool find_directory(const char *root, pid_t pid, size_t versions_count, bool has_memory,
			   char *out, size_t out_bytes)
{
	struct mt_cgroup_path cgroup;
	bool found = false;

	for (size_t i = 0; i < versions_count && !found; i++)
		found = mt_cgroup_path_find(root, pid, versions[i].controller, &cgroup) &&
			(!has_memory || has_file(cgroup.directory, versions[i].usage));
	if (found)
		snprintf(out, out_bytes, "%s", cgroup.directory);
	return found;
}

bool mt_limit_cgroup_directory(const char *root, pid_t pid, char *out, size_t out_bytes)
{
	return find_directory(root, pid, 1, false, out, out_bytes);
}

bool mt_limit_memory_directory(const char *root, pid_t pid, char *out, size_t out_bytes)
{
	return find_directory(root, pid, VERSIONS_COUNT, true, out, out_bytes);
}

enum mt_err mt_limit_find(const char *root, pid_t pid, struct mt_limit *out)
{
	struct mt_limit machine = machine_limit(root), nearest = {0};
	struct mt_cgroup_path cgroup;

	for (size_t i = 0; i < VERSIONS_COUNT; i++) {
		if (!mt_cgroup_path_find(root, pid, versions[i].controller, &cgroup))
			continue;
		/* From the directory of the process up to the mount point. */
		for (size_t length = cgroup.length; length;
		     length = mt_cgroup_path_parent(&cgroup, length)) {
			cgroup.directory[length] = '\0';
			read_limits(&versions[i], cgroup.directory, machine.limit_bytes, &nearest);
		}
	}
	if (!nearest.is_cgroup && !machine.limit_bytes)
		return MT_ERR_SYSTEM;
	*out = nearest.is_cgroup ? nearest : machine;
	return MT_ERR_OK;
}
