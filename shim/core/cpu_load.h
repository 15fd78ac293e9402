/* core/cpu_load.h -- reads the load of the machine and how many CPUs this process may use. Owns the
 * number of CPUs and the quota, which it reads again every minute. Only the worker thread may
 * call. Takes no lock, never allocates, never writes a file. */
#ifndef MT_CORE_CPU_LOAD_H
#define MT_CORE_CPU_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct mt_load {
	bool known;                /* load_thousandths was read */
	uint64_t load_thousandths; /* load average of the machine over one minute */
	/* in the main thread's affinity mask, up to the cgroup's CPU quota, rounded up */
	uint64_t cpus_count;
};

/* Returns how much of one CPU the quotas of the cgroup and its ancestors leave, in percent, 1 to
 * 100. Counted again every minute. Arguments as below. */
uint64_t mt_cpu_load_quota_pct(const char *root, uint64_t now_ns);

/* Fills *out. root: a prefix of every path, "" except in tests. now_ns: CLOCK_MONOTONIC. */
void mt_cpu_load_read(const char *root, uint64_t now_ns, struct mt_load *out);

/* Parses the first number of /proc/loadavg ("0.48 0.37 0.80 1/93 6653") into thousandths. Returns
 * false for other text. Pure. */
bool mt_cpu_load_parse(const char *text, uint64_t *out_thousandths);

/* Forgets the number of CPUs, in a forked child. */
void mt_cpu_load_fork_child(void);

#endif
