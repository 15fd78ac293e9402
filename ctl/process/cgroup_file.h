/* ctl/process/cgroup_file.h -- the files of a memory cgroup, by a path that a process may have
 * said: its MT_CGROUP, and what it publishes. Such a path may lead anywhere, and to read some files
 * is an act: /proc/kmsg and trace_pipe lose what was read. So no symbolic link in it is followed,
 * and the file must be a regular one of a cgroup file system, of version 1 or 2. A file on a disk
 * or in memory will do in its place, for tests and for a tree that somebody has set up, if it
 * belongs to the caller. Files of proc, sysfs, tracefs, debugfs, FUSE and network file systems are
 * never opened. */
#ifndef MT_CTL_PROCESS_CGROUP_FILE_H
#define MT_CTL_PROCESS_CGROUP_FILE_H

#include <stdbool.h>

/* bytes that are read; memory.stat, the longest, has about 2,000 */
#define MT_CGROUP_FILE_MAX 65536

/* Whether there is such a file. Never opens it. `path` is absolute; "/proc/PID/root" may stand
 * before it, and is the root of that process. */
bool mt_cgroup_file_exists(const char *path);

/* The first MT_CGROUP_FILE_MAX bytes of it, ended by a NUL; NULL where there is none. The caller
 * frees. */
char *mt_cgroup_file_read(const char *path);

#endif
