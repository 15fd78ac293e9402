/* ctl/process/limit.h -- the memory limits of a cgroup and of all its ancestors, version 2 and
 * version 1, and of the machine. Used memory is memory that cannot be reclaimed at once: usage
 * without inactive file pages in a cgroup, MemTotal - MemAvailable on the machine. The shim's own
 * reader (core/cgroup.h) finds all of it. Reads files only. `root` is put before every path: ""
 * except in tests, and for the root directory of a process. One thread may call. */
#ifndef MT_CTL_PROCESS_LIMIT_H
#define MT_CTL_PROCESS_LIMIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctl/output/error.h"

struct mt_limit {
	uint64_t used_bytes;
	uint64_t limit_bytes;
	bool is_cgroup;   /* false: the whole machine */
	char source[512]; /* the file that holds the limit */
};

struct mt_limit_request {
	const char *root;
	pid_t pid;             /* 0: mtctl itself */
	const char *directory; /* as MT_CGROUP names one; NULL: the cgroup of the process */
	uint64_t limit_mb;     /* MT_LIMIT_MB; 0: none */
};

/* Of all limits that apply, finds the one that is nearest to being reached: that of the machine if
 * no cgroup has one. Returns MT_ERR_SYSTEM if /proc cannot be read, MT_ERR_INVALID if the
 * directory is no memory cgroup. */
enum mt_err mt_limit_find_by(const struct mt_limit_request *request, struct mt_limit *out);

/* The same for a process. */
enum mt_err mt_limit_find(const char *root, pid_t pid, struct mt_limit *out);

/* The same for a directory of a memory cgroup and the cgroups above it. */
enum mt_err mt_limit_find_in(const char *root, const char *directory, struct mt_limit *out);

/* Sets *out to the bytes used in this directory of a memory cgroup. Returns false if it is none.
 */
bool mt_limit_used_in(const char *root, const char *directory, uint64_t *out);

/* MemTotal - MemAvailable. */
uint64_t mt_limit_machine_used(const char *root);

/* Returns the used share of the limit in percent, 0 without a limit. */
double mt_limit_percent(const struct mt_limit *memory);

/* Returns the bytes of a line of /proc/meminfo, 0 if there is none. key: "MemTotal:". */
uint64_t mt_limit_meminfo(const char *root, const char *key);

/* Writes the directory whose memory.pressure describes the process, that of its cgroup of version
 * 2, to *out. Returns false if there is none. */
bool mt_limit_cgroup_directory(const char *root, pid_t pid, char *out, size_t out_bytes);

/* The same for the cgroup with the memory controller, of version 2 or 1. */
bool mt_limit_memory_directory(const char *root, pid_t pid, char *out, size_t out_bytes);

/* ---- files of a cgroup ---- */

/* Opens files of a memory cgroup by a path that a process may have
 * chosen: its MT_CGROUP, or the path that it publishes.
 *
 * The path is not trusted. Reading some files has an effect: a read of /proc/kmsg or trace_pipe
 * consumes data. So no symbolic link in the path is followed. The file must be a regular file of a
 * cgroup file system, version 1 or 2. A file on a disk or a tmpfs is accepted if it belongs to the
 * caller, for tests. Files of proc, sysfs, tracefs, debugfs, FUSE and network file systems are
 * never opened. */

/* Bytes that are read of a file. memory.stat, the longest, has about 2,000. */
#define MT_CGROUP_FILE_MAX 65536

/* Returns the first MT_CGROUP_FILE_MAX bytes of the file, ended by a NUL, or NULL if the file
 * does not exist. The caller frees. */
char *mt_cgroup_file_read(const char *path);

/* Sets *out to the number in a file of this directory; with a key, to the one in the line that
 * begins with it (mt_read_file_number). Returns false if there is none, as for "max", and leaves
 * *out as it is. */
bool mt_cgroup_file_number(const char *directory, const char *file, const char *key, uint64_t *out);

#endif
