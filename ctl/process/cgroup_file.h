/* ctl/process/cgroup_file.h -- opens files of a memory cgroup by a path that a process may have
 * chosen: its MT_CGROUP, or the path that it publishes.
 *
 * The path is not trusted. Reading some files has an effect: a read of /proc/kmsg or trace_pipe
 * consumes data. So no symbolic link in the path is followed. The file must be a regular file of a
 * cgroup file system, version 1 or 2. A file on a disk or a tmpfs is accepted if it belongs to the
 * caller, for tests. Files of proc, sysfs, tracefs, debugfs, FUSE and network file systems are
 * never opened. */
#ifndef MT_CTL_PROCESS_CGROUP_FILE_H
#define MT_CTL_PROCESS_CGROUP_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that are read of a file. memory.stat, the longest, has about 2,000. */
#define MT_CGROUP_FILE_MAX 65536

/* Returns whether the file exists. `path` is absolute. A path that begins with "/proc/PID/root" is
 * resolved from the root directory of that process. Never opens the file. */
bool mt_cgroup_file_exists(const char *path);

/* Returns the first MT_CGROUP_FILE_MAX bytes of the file, ended by a NUL, or NULL where the file
 * does not exist. The caller frees. */
char *mt_cgroup_file_read(const char *path);

/* Sets *out to the number in a file of this directory; with a key, to the one in the line that
 * begins with it (mt_read_file_number). Returns false where there is none, as for "max". */
bool mt_cgroup_file_number(const char *directory, const char *file, const char *key, uint64_t *out);

#endif
