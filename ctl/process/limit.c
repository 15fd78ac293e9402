#include "ctl/process/limit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/cgroup_text.h"
#include "ctl/process/cgroup_file.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

/* The mount point of a cgroup hierarchy, and the directory of the process in it. */
struct location {
	char mount[PATH_MAX]; /* begins with `root` */
	char directory[PATH_MAX + PATH_MAX];
};

struct version {
	const char *type, *controller, *usage, *inactive;
	const char *limits[2];
};

static const struct version versions[] = {
	{"cgroup2", "", "memory.current", "inactive_file", {"memory.max", "memory.high"}},
	{"cgroup",
	 "memory",
	 "memory.usage_in_bytes",
	 "total_inactive_file",
	 {"memory.limit_in_bytes", NULL}},
};
#define VERSIONS_COUNT (sizeof(versions) / sizeof(versions[0]))
#define PATH_BYTES     (3 * PATH_MAX)

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

/* The path in a line of /proc/PID/cgroup: "0::/path", "4:memory:/path". */
static bool find_path(const struct version *version, char *text, char *out, size_t out_bytes)
{
	char *saved = NULL;

	for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
		char *controllers = strchr(line, ':'),
		     *path = controllers ? strchr(controllers + 1, ':') : NULL;
		bool is_unified = strncmp(line, "0::", 3) == 0;

		if (!path)
			continue;
		*path++ = '\0';
		if (*version->controller ? mt_cgroup_has_word(controllers + 1, version->controller)
					 : is_unified) {
			snprintf(out, out_bytes, "%s", path);
			return true;
		}
	}
	return false;
}

/* One line of mountinfo: "36 25 0:31 ROOT MOUNT options - TYPE source superoptions". */
static bool parse_mount(const struct version *version, const char *line, char *mount_root,
			char *mount)
{
	const char *dash = strstr(line, " - ");
	char type[32], options[256];

	if (!dash || sscanf(dash, " - %31s %*s %255s", type, options) != 2 ||
	    strcmp(type, version->type) != 0)
		return false;
	if (*version->controller && !mt_cgroup_has_word(options, version->controller))
		return false;
	if (sscanf(line, "%*s %*s %*s %4095s %4095s", mount_root, mount) != 2 ||
	    *mount_root != '/' || *mount != '/')
		return false;
	mt_cgroup_unescape(mount_root);
	mt_cgroup_unescape(mount);
	return true;
}

/* A container may see a part of the hierarchy only. Where no mount shows the path, the directory of
 * the first mount is used. */
static bool find_location(const char *root, const struct version *version, const char *path,
			  struct location *out)
{
	char file[PATH_MAX], mount_root[PATH_MAX], mount[PATH_MAX];
	char *text, *saved = NULL;
	const char *below = NULL;
	bool found = false;

	snprintf(file, sizeof(file), "%.4000s/proc/self/mountinfo", root);
	text = mt_read_file(file, NULL);
	for (char *line = text ? strtok_r(text, "\n", &saved) : NULL; line && !below;
	     line = strtok_r(NULL, "\n", &saved)) {
		if (!parse_mount(version, line, mount_root, mount))
			continue;
		below = mt_cgroup_path_below(path, mount_root);
		if (found && !below)
			continue;
		snprintf(out->mount, sizeof(out->mount), "%.2000s%.2000s", root, mount);
		snprintf(out->directory, sizeof(out->directory), "%s%.4000s", out->mount,
			 below ? below : "");
		found = true;
	}
	free(text);
	return found;
}

static bool has_file(const char *directory, const char *file)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	return mt_cgroup_file_exists(path);
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

/* Reads the limits of one directory. *out changes where one of them is nearer to being reached.
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

static bool locate(const char *root, const struct version *version, pid_t pid, struct location *out)
{
	char file[PATH_MAX], path[PATH_MAX], number[16] = "self";
	char *text;
	bool found;

	if (pid)
		snprintf(number, sizeof(number), "%d", (int)pid);
	snprintf(file, sizeof(file), "%.4000s/proc/%s/cgroup", root, number);
	text = mt_read_file(file, NULL);
	found = text && find_path(version, text, path, sizeof(path));
	free(text);
	return found && find_location(root, version, path, out);
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
		if (*directory == '/' && has_file(directory, versions[i].usage))
			return &versions[i];
	return NULL;
}

bool mt_limit_used_in(const char *root, const char *directory, uint64_t *out)
{
	char path[2 * PATH_MAX];
	const struct version *version;

	snprintf(path, sizeof(path), "%.4000s%.4000s", root, directory);
	version = version_of(path);
	return version && read_used(version, path, out);
}

enum mt_err mt_limit_find_in(const char *root, const char *directory, struct mt_limit *out)
{
	struct mt_limit machine = machine_limit(root), nearest = {0};
	char path[2 * PATH_MAX];
	const struct version *version;
	char *last;

	snprintf(path, sizeof(path), "%.4000s%.4000s", root, directory);
	while ((last = strrchr(path, '/')) && last > path && !last[1])
		*last = '\0';
	version = *directory == '/' ? version_of(path) : NULL;
	if (!version)
		return MT_ERR_INVALID;
	/* Up to the last directory that is a cgroup. */
	for (last = path; last && *path && has_file(path, version->usage);) {
		read_limits(version, path, machine.limit_bytes, &nearest);
		last = strrchr(path, '/');
		if (last)
			*last = '\0';
	}
	*out = nearest.is_cgroup ? nearest : machine;
	return MT_ERR_OK;
}

static bool find_directory(const char *root, pid_t pid, size_t versions_count, bool has_memory,
			   char *out, size_t out_bytes)
{
	struct location *location = mt_error_check_memory(calloc(1, sizeof(*location)));
	bool found = false;

	for (size_t i = 0; i < versions_count && !found; i++)
		found = locate(root, &versions[i], pid, location) &&
			(!has_memory || has_file(location->directory, versions[i].usage));
	if (found)
		snprintf(out, out_bytes, "%s", location->directory);
	free(location);
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
	struct location *location = mt_error_check_memory(calloc(1, sizeof(*location)));

	for (size_t i = 0; i < VERSIONS_COUNT; i++) {
		if (!locate(root, &versions[i], pid, location))
			continue;
		/* From the directory of the process up to the mount point. */
		for (;;) {
			read_limits(&versions[i], location->directory, machine.limit_bytes,
				    &nearest);
			if (strlen(location->directory) <= strlen(location->mount))
				break;
			*strrchr(location->directory, '/') = '\0';
		}
	}
	free(location);
	if (!nearest.is_cgroup && !machine.limit_bytes)
		return MT_ERR_SYSTEM;
	*out = nearest.is_cgroup ? nearest : machine;
	return MT_ERR_OK;
}
