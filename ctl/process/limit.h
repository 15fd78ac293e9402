/* ctl/process/limit.h -- how much memory a process may still have: its cgroup's limits and those of
 * all ancestors, version 2 and version 1, else the machine's. Used memory is what cannot be had
 * back at once: usage without inactive file pages in a cgroup, MemTotal - MemAvailable on the
 * machine. Reads files only. */
#ifndef MT_CTL_PROCESS_LIMIT_H
#define MT_CTL_PROCESS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/output/error.h"

struct mt_limit {
	uint64_t used_bytes;
	uint64_t limit_bytes;
	bool is_cgroup;   /* false: the whole machine */
	char source[512]; /* the file that holds the limit */
};

/* Of all limits that hold for the process (0: mtctl itself) the one that is nearest to being
 * reached. `root` stands before every path: "" but in tests. SYSTEM: /proc could not be read. */
enum mt_err mt_limit_find(const char *root, pid_t pid, struct mt_limit *out);

/* The same for this directory of a memory cgroup and the groups above it, as MT_CGROUP names one;
 * the machine where none of them has a limit. INVALID: it is no such directory. */
enum mt_err mt_limit_find_in(const char *root, const char *directory, struct mt_limit *out);

/* What is used in this directory of a memory cgroup; false: it is none. */
bool mt_limit_used_in(const char *root, const char *directory, uint64_t *out);

/* MemTotal - MemAvailable. */
uint64_t mt_limit_machine_used(const char *root);

double mt_limit_percent(const struct mt_limit *memory);

/* Bytes of a /proc/meminfo line, 0 if there is none. */
uint64_t mt_limit_meminfo(const char *root, const char *key);

/* The directory of the process's cgroup of version 2; false: there is none. */
bool mt_limit_cgroup_directory(const char *root, pid_t pid, char *out, size_t out_bytes);

/* The directory of the memory controller's group, of version 2 where that has the controller, else
 * of version 1. */
bool mt_limit_memory_directory(const char *root, pid_t pid, char *out, size_t out_bytes);

#endif
