/* core/last_layout.h -- the format of the last look, NAME.last: what a process was when its limit
 * came near, for `mtctl last` after the kernel has killed it. In MT_LAST_DIR, mode 0600, named
 * PID-STARTTIME-PIDNS.last as the stats file is (core/stats_layout.h). The process writes it under
 * another name and renames it when it is complete. All integers are native-endian; every text ends
 * with NUL. A reader trusts nothing in it: it checks magic, versions, size and checksum, bounds
 * every count, and prints text only after replacing what is not printable. */
#ifndef MT_CORE_LAST_LAYOUT_H
#define MT_CORE_LAST_LAYOUT_H

#include <stdint.h>

#include "core/stats_layout.h"

#define MT_LAST_MAGIC   0x317473616c746dull /* "mtlast1" */
#define MT_LAST_VERSION 1u
/* room for sites and for processes; the counts of the head are filled */
#define MT_LAST_SITES_COUNT     64u
#define MT_LAST_PROCESSES_COUNT 16u
/* so many processes of the cgroup are looked at: processes_total ends there */
#define MT_LAST_PROCESSES_MAX 256u
/* A folder keeps so many files; a process that adds one removes the oldest of the dead. */
#define MT_LAST_FILES_MAX 20u

/* Why the file was written: a critical level, or growth that meets the limit within seconds. */
#define MT_LAST_CAUSES(X)                                                                          \
	X(CRITICAL, "critical")                                                                    \
	X(GROWTH, "growth")

enum mt_last_cause {
#define X(name, text) MT_LAST_##name,
	MT_LAST_CAUSES(X) MT_LAST_CAUSE_COUNT
#undef X
};

/* A place in the program that made the heap grow. */
struct mt_last_site {
	uint64_t bytes;         /* by which the heap grew here since it was last smaller */
	uint64_t largest_bytes; /* largest single growth: about the size of a large block */
	uint64_t count;         /* how many times it grew here */
	/* Lines of Python, innermost first, one to a line: "FILE:LINE". In a program without Python
	 * the caller of malloc: "PATH+0x1a2b", counted from the first byte of the file's first
	 * mapping. */
	char text[488];
};

/* Another process of the limit's cgroup. */
struct mt_last_process {
	uint64_t pid;
	uint64_t rss_bytes;
	char comm[16];
};

struct mt_last_head {
	uint64_t magic;
	uint32_t version; /* MT_LAST_VERSION */
	uint32_t cause;   /* enum mt_last_cause */
	uint64_t file_bytes;
	uint64_t stats_bytes;
	uint64_t time_ns; /* CLOCK_REALTIME */
	/* of the nearest limit */
	uint64_t used_bytes;
	uint64_t limit_bytes;
	uint64_t growth_bytes; /* of the usage, in the second before */
	/* oom_kill of the limit's cgroup, so far; UINT64_MAX: unknown */
	uint64_t oom_kills_count;
	/* of the limit's cgroup, by its memory.stat; 0: unknown */
	uint64_t group_anon_bytes;
	uint64_t group_file_bytes; /* page cache, with shmem */
	uint64_t group_shmem_bytes;
	uint64_t group_kernel_bytes;
	/* of the process */
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t file_rss_bytes;
	uint64_t shmem_bytes;
	uint64_t swap_bytes;
	uint64_t compose_ns;   /* time that the last write of this file took; 0: none before */
	uint64_t writes_count; /* of this process */
	/* growth of the heap whose site is not known */
	uint64_t unknown_bytes;
	uint32_t sites_count;
	uint32_t processes_count;
	/* in the cgroup, this one included; MT_LAST_PROCESSES_MAX: so many or more */
	uint64_t processes_total;
	char limit_path[512]; /* file of the limit: its folder has the cgroup's other files */
	char command[512];    /* arguments, separated by blanks, cut */
	char status[2048];    /* /proc/self/status, cut */
};

struct mt_last_file {
	struct mt_last_head head;
	struct mt_last_site sites[MT_LAST_SITES_COUNT]; /* largest first */
	struct mt_last_process processes[MT_LAST_PROCESSES_COUNT];
	struct mt_stats_file stats;
	uint64_t checksum; /* core/checksum.h, of all before it */
};

_Static_assert(sizeof(struct mt_last_file) <= 256 * 1024, "the documented size of a file");
_Static_assert(offsetof(struct mt_last_file, checksum) % 8 == 0, "the checksum goes by words");

#endif
