/* sys/rss.h -- what the kernel says of this process's memory. Read-only, no state, no allocation;
 * any thread. */
#ifndef MT_SYS_RSS_H
#define MT_SYS_RSS_H

#include <stdbool.h>
#include <stdint.h>

/* The cheap look, /proc/self/statm: a few microseconds. */
struct mt_rss_quick {
	uint64_t mapped_bytes; /* address space, touched or not */
	uint64_t rss_bytes;
	uint64_t anon_bytes; /* resident minus shared: RssAnon, as far as statm tells */
};

/* The full look, /proc/self/status and getrusage: some tens of microseconds. */
struct mt_rss_full {
	uint64_t rss_bytes;   /* VmRSS */
	uint64_t peak_bytes;  /* VmHWM */
	uint64_t anon_bytes;  /* RssAnon */
	uint64_t file_bytes;  /* RssFile */
	uint64_t shmem_bytes; /* RssShmem */
	uint64_t swap_bytes;  /* VmSwap */
};

/* False where /proc is not to be had; *out is untouched then. */
bool mt_rss_read_quick(struct mt_rss_quick *out);
bool mt_rss_read_full(struct mt_rss_full *out);

/* For a thread with a table of descriptors of its own: from now on it keeps statm open for its
 * quick looks, which saves two thirds of their cost. Nobody else may ever be given that number, nor
 * close it. */
void mt_rss_keep_statm_open(void);

/* The full look at a file that is written like /proc/self/status. */
bool mt_rss_read_status(const char *path, struct mt_rss_full *out);

/* Anonymous pages that are shared with other processes, because one was forked from the other: an
 * upper bound, twice what sharing saves this process. Reads /proc/self/smaps_rollup: walks all page
 * tables, some milliseconds a GB. False before Linux 5.3 and where /proc is not to be had;
 * *out_bytes is untouched then. */
bool mt_rss_read_shared(uint64_t *out_bytes);

/* Page faults of the whole process that needed no I/O, and its CPU time, ever (getrusage). */
struct mt_rss_usage {
	uint64_t minor_faults_count;
	uint64_t cpu_ns;
	uint64_t system_ns;
};
bool mt_rss_read_usage(struct mt_rss_usage *out);

/* The mode of transparent huge pages for anonymous memory. */
enum mt_thp { MT_THP_NEVER, MT_THP_MADVISE, MT_THP_ALWAYS };
enum mt_thp mt_rss_thp(void);
uint64_t mt_rss_huge_page_bytes(void);

#endif
