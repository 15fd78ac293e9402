/* pressure/cgroup.h -- the memory limits that this process lives under, and what is used of them:
 * cgroup v2 (memory.max and memory.high of its own group and of all above), v1
 * (memory.limit_in_bytes), MT_LIMIT_MB, else the machine's memory. Read-only, opens and closes what
 * it reads, allocates nothing. For the worker alone; its state is the list of those groups, found
 * again every minute and whenever reading one fails, with their limits, read again every 5 s.
 *
 * Looking must be cheap while there is nothing to see. So what is dear (memory.stat, which makes a
 * v2 kernel add up its counters; /proc/meminfo) is read only where the cheap upper bound
 * (memory.current; total - free of sysinfo(2)) has reached the percentage given. */
#ifndef MT_PRESSURE_CGROUP_H
#define MT_PRESSURE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"

struct mt_cgroup_sample {
	/* of the limit that is nearest to being reached; an upper bound below exact_pct, else
	 * without inactive file pages; of the machine: MemTotal - MemAvailable */
	uint64_t used_bytes;
	/* 0: nothing is known. What the machine does not have is no limit */
	uint64_t limit_bytes;
	/* false: the machine's memory, or MT_LIMIT_MB of it. MT_LIMIT_MB in a group is held against
	 * the group's usage, and this is true */
	bool is_cgroup;
	/* false at or above exact_pct: there is no memory.stat, used_bytes is the upper bound */
	bool exact;
	bool events_known;
	/* memory.events max + high (the local ones, where there are) of those groups that have a
	 * limit, v1: failcnt; ever. Never falls; does not rise because the process was moved */
	uint64_t events_count;
	/* the file or setting that holds the limit; stays until the next look */
	const char *source;
};

/* root stands before every path ("" but in tests); cfg: MT_CGROUP, MT_LIMIT_MB. now_ns: of a clock
 * that does not go back. exact_pct: percentage of a limit from which on the exact figure is wanted.
 */
void mt_cgroup_read(const char *root, const struct mt_config *cfg, uint64_t now_ns,
		    uint64_t exact_pct, struct mt_cgroup_sample *out);

/* The directory, with root before it, whose memory.pressure speaks for this process, as of the last
 * look: of its group in version 2, also where version 1 has the limits; or MT_CGROUP. "" none.
 * Stays until the next look. */
const char *mt_cgroup_directory(void);

void mt_cgroup_fork_child(void);

#endif
