/* core/cgroup_path.h -- where this process lies in a hierarchy of cgroups, and how the small files
 * there are read. Read-only, keeps no descriptor, allocates nothing. For the worker alone: there is
 * one buffer for lines. */
#ifndef MT_CORE_CGROUP_PATH_H
#define MT_CORE_CGROUP_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_CGROUP_PATH_BYTES 4096

struct mt_cgroup_path {
	/* of its group; may be gone, or hidden from a container: those above may still be there */
	char directory[MT_CGROUP_PATH_BYTES];
	size_t length;
	/* of the part that is the mount point: what lies above it cannot be seen */
	size_t mount_length;
};

/* By /proc/self/cgroup and /proc/self/mountinfo (root stands before every path). controller: of
 * version 1, NULL for version 2. A mount that does not show the group stands for it: so a container
 * sees its own. False, *out undefined: it is in none. */
bool mt_cgroup_path_find(const char *root, const char *controller, struct mt_cgroup_path *out);

/* A place that is given by its directory. False where the path does not begin with a slash, or is
 * too long. */
bool mt_cgroup_path_given(const char *root, const char *directory, struct mt_cgroup_path *out);

/* The length of the group above the one whose path has this length; 0 at the mount point. */
size_t mt_cgroup_path_parent(const struct mt_cgroup_path *place, size_t length);

/* A file of the group whose path has this length: whether it is there; its text. False: nothing
 * could be read. */
bool mt_cgroup_path_has(const struct mt_cgroup_path *place, size_t length, const char *file);
bool mt_cgroup_path_read(const struct mt_cgroup_path *place, size_t length, const char *file,
			 char *out, size_t out_bytes);

/* A number that stands alone, up to the end of the line; what has no room is UINT64_MAX. False,
 * *out untouched: else. Pure. */
bool mt_cgroup_path_number(const char *text, uint64_t *out);

/* The number of the line "key NUMBER"; key with what separates it. Pure. */
bool mt_cgroup_path_keyed(const char *text, const char *key, uint64_t *out);

#endif
