/* core/cgroup.h -- what the kernel tells of this process's cgroup and of the machine: memory limits
 * and usage, stall, load and CPUs. Finds a process's cgroup in a hierarchy and reads the small
 * files of it and of its ancestors. Owns static buffers, and what the sections below name. Only the
 * worker thread, or mtctl, may call, unless a comment says pure. Takes no lock, never blocks, never
 * writes a file, never logs, never allocates, keeps no descriptor. */
#ifndef MT_CORE_CGROUP_H
#define MT_CORE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/config.h"

/* Writes the kind of the file system that is mounted at a full path or above it ("ext4"), by
 * /proc/self/mountinfo, which asks nothing of that file system. Follows no link. Returns false
 * if it is not known. */
bool mt_cgroup_path_mount_kind(const char *path, char *out, size_t out_bytes);

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

/* ---- memory limits ---- */

/* Reads the memory limits of this process and their usage: cgroup v2 (memory.max and memory.high of
 * its cgroup and all ancestors), cgroup v1 (memory.limit_in_bytes), MT_LIMIT_MB, else the machine's
 * memory. Owns the list of those cgroups, found again every minute and after a failed read, with
 * their limits, read again every 5 s. mtctl asks about other processes (mt_cgroup_of).
 *
 * A reading far from the limit must be cheap: memory.stat makes a v2 kernel flush its counters. So
 * it is read only if memory.current, an upper bound, reaches the given percentage. */

struct mt_cgroup_sample {
	/* usage of the limit that is closest to being reached. Below exact_pct an upper bound, else
	 * without inactive file pages; for the machine MemTotal - MemAvailable */
	uint64_t used_bytes;
	/* 0: unknown. A limit above the machine's memory is ignored */
	uint64_t limit_bytes;
	/* the limit is for a cgroup; also if MT_LIMIT_MB limits the cgroup's usage. false: for
	 * the machine's memory, or MT_LIMIT_MB of it */
	bool is_cgroup;
	/* false: used_bytes is the upper bound; at or above exact_pct if memory.stat is
	 * missing */
	bool exact;
	/* false also for the first sample after the process moved to another cgroup */
	bool events_known;
	/* memory.events.local max + high of the cgroups with a limit (memory.events before Linux
	 * 5.2; v1: failcnt), in total */
	uint64_t events_count;
	bool is_without_given; /* MT_CGROUP is no memory cgroup; the process's own is used */
	/* the file or setting that defines the limit; valid until the next call */
	const char *source;
};

/* Fills *out. root: a prefix of every path, "" except in tests. cfg: MT_CGROUP, MT_LIMIT_MB.
 * now_ns: CLOCK_MONOTONIC. exact_pct: percentage of a limit from which on the exact usage is
 * needed. */
void mt_cgroup_read(const char *root, const struct mt_config *cfg, uint64_t now_ns,
		    uint64_t exact_pct, struct mt_cgroup_sample *out);

/* Returns the directory, with root, whose memory.pressure describes this process, as of the last
 * mt_cgroup_read: that of its cgroup in version 2, even if version 1 has the limits; or
 * MT_CGROUP. "": none. Valid until the next call. */
const char *mt_cgroup_directory(void);

/* Sets *out_bytes to the usage, without inactive file pages, of the cgroup itself (of its nearest
 * ancestor with the memory controller), with or without a limit, as of the last mt_cgroup_read, and
 * writes its directory to *out. Returns false if there is none. */
bool mt_cgroup_used(uint64_t *out_bytes, char *out, size_t out_size);

/* Sets *out_bytes to a line of /proc/meminfo. key: with its colon, "MemTotal:". Returns false if
 * there is none. */
bool mt_cgroup_meminfo(const char *root, const char *key, uint64_t *out_bytes);

/* Forgets the cgroups; the next mt_cgroup_read finds those of this process. 0: the caller, also in
 * a forked child. */
void mt_cgroup_of(pid_t pid);

/* ---- stall ---- */

/* Reads pressure stall information: how long tasks of the cgroup, or else of the machine, waited
 * for memory. A PSI file that MEMORY_PRESSURE_WATCH names is read first: systemd names the file of
 * the service's cgroup (https://systemd.io/MEMORY_PRESSURE). Its triggers, FIFOs and sockets are
 * not used: systemd's own trigger is 10 % of two seconds, which is the threshold of warn here. Owns
 * the name of the last file. */

struct mt_psi_sample {
	/* some_us is valid; false for one sample after the file changed */
	bool known;
	bool is_own; /* of this process's cgroup, or the file that is named; false: the machine's */
	uint64_t some_us; /* "some total=": at least one task waited, in total */
};

/* Fills *out. root: a prefix of every path, "" except in tests. group: the cgroup's directory from
 * mt_cgroup_directory; "", or a group without a PSI file, means /proc/pressure/memory. watched:
 * MEMORY_PRESSURE_WATCH; ignored if it is no full path of a regular file with PSI. */
void mt_cgroup_psi_read(const char *root, const char *group, const char *watched,
			struct mt_psi_sample *out);

/* Forgets the last file in a forked child. */
void mt_cgroup_psi_fork_child(void);

/* ---- load and CPUs ---- */

/* Reads the load of the machine and how many CPUs this process may use. Owns the number of CPUs and
 * the quota, which it reads again every minute. */

struct mt_load {
	bool known;                /* load_thousandths was read */
	uint64_t load_thousandths; /* load average of the machine over one minute */
	/* in the main thread's affinity mask, up to the cgroup's CPU quota, rounded up */
	uint64_t cpus_count;
};

/* Returns how much of one CPU the quotas of the cgroup and its ancestors leave, in percent, 1 to
 * 100. Counted again every minute. Arguments as below. */
uint64_t mt_cgroup_load_quota_pct(const char *root, uint64_t now_ns);

/* Fills *out. root: a prefix of every path, "" except in tests. now_ns: CLOCK_MONOTONIC. */
void mt_cgroup_load_read(const char *root, uint64_t now_ns, struct mt_load *out);

/* Forgets the number of CPUs, in a forked child. */
void mt_cgroup_load_fork_child(void);

#endif
