/* core/cgroup_path.h -- finds a process's cgroup in a hierarchy and reads the small files of it and
 * of its ancestors. Owns static buffers. Only the worker thread, or mtctl, may call, unless a
 * comment says pure. Takes no lock, never writes a file, never allocates, keeps no descriptor. */
#ifndef MT_CORE_CGROUP_PATH_H
#define MT_CORE_CGROUP_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MT_CGROUP_PATH_BYTES 4096

struct mt_cgroup_path {
	/* of the cgroup; it may be removed, or hidden from a container whose ancestors are not */
	char directory[MT_CGROUP_PATH_BYTES];
	size_t length;
	/* length of the mount point, the highest directory that can be read */
	size_t mount_length;
};

/* Finds the cgroup by /proc/PID/cgroup and /proc/self/mountinfo. root: a prefix of every path, ""
 * except in tests. pid: 0 is the caller's own process. controller: of cgroup version 1; NULL for
 * version 2. If no mount shows the cgroup, a mount of the hierarchy stands for it, as in a
 * container. Returns false if the process is in no such hierarchy; *out is then undefined. */
bool mt_cgroup_path_find(const char *root, pid_t pid, const char *controller,
			 struct mt_cgroup_path *out);

/* Passes each line of a file, without its newline, to visit until that returns true. */
void mt_cgroup_each_line(const char *path, bool (*visit)(char *line, void *context), void *context);

/* Writes the kind of the file system that is mounted at a full path or above it ("ext4"), by
 * /proc/self/mountinfo, which asks nothing of that file system. Follows no link. Returns false
 * if it is not known. */
bool mt_cgroup_path_mount_kind(const char *path, char *out, size_t out_bytes);

/* Sets *out to a given directory. Returns false if the path does not begin with a slash, or is
 * too long. */
bool mt_cgroup_path_given(const char *root, const char *directory, struct mt_cgroup_path *out);

/* Returns the length of the parent's path, for a cgroup whose path has this length; 0 at the mount
 * point. Pure. */
size_t mt_cgroup_path_parent(const struct mt_cgroup_path *place, size_t length);

/* Returns whether the cgroup whose path has this length has a file of this name. */
bool mt_cgroup_path_has(const struct mt_cgroup_path *place, size_t length, const char *file);

/* Reads such a file: up to out_bytes - 1 bytes and a NUL. Returns false if nothing is read. */
bool mt_cgroup_path_read(const struct mt_cgroup_path *place, size_t length, const char *file,
			 char *out, size_t out_bytes);

/* The function that opens the files of cgroups, in the place of open(2), from now on; -1: there is
 * none. mtctl reads by paths that other users have chosen. The shim never calls this. */
void mt_cgroup_path_open_by(int (*open_by)(const char *path));

/* Parses a decimal number that ends with its line; a larger one is UINT64_MAX. Returns false, and
 * leaves *out as it is, for any other text. Pure. */
bool mt_cgroup_path_number(const char *text, uint64_t *out);

/* Parses the number after key, in the line that starts with key. key: with its separator, as
 * "inactive_file ". Returns false if there is no such line. Pure. */
bool mt_cgroup_path_keyed(const char *text, const char *key, uint64_t *out);

/* Writes the path of another file of the cgroup that has this file. Returns false if `file` is
 * no path, or out is too small. Pure. */
bool mt_cgroup_path_sibling(const char *file, const char *name, char *out, size_t out_bytes);

/* Returns oom_kill of the cgroup that has this file: how many processes the kernel has killed in
 * it. UINT64_MAX: unknown. */
uint64_t mt_cgroup_path_oom_kills(const char *file);

#endif
