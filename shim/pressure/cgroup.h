/* pressure/cgroup.h -- reads the memory limits of this process and their usage: cgroup v2
 * (memory.max and memory.high of its cgroup and all ancestors), cgroup v1 (memory.limit_in_bytes),
 * MT_LIMIT_MB, else the machine's memory. Owns the list of those cgroups, found again every minute
 * and after a failed read, with their limits, read again every 5 s. Only the worker thread may
 * call, or mtctl, which asks about other processes (mt_cgroup_of). Takes no lock, never writes a
 * file, never logs, never allocates, keeps no descriptor.
 *
 * A reading far from the limit must be cheap: memory.stat makes a v2 kernel flush its counters. So
 * it is read only if memory.current, an upper bound, reaches the given percentage. */
#ifndef MT_PRESSURE_CGROUP_H
#define MT_PRESSURE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/config.h"

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

#endif
