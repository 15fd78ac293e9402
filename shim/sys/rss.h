/* sys/rss.h -- reads the memory figures that the kernel keeps for this process. Owns one
 * descriptor of the worker thread, and what the sections name. Any thread may call. Takes no lock,
 * never allocates. */
#ifndef MT_SYS_RSS_H
#define MT_SYS_RSS_H

#include <stdbool.h>
#include <stdint.h>

/* From /proc/self/statm: costs a few microseconds. */
struct mt_rss_quick {
	uint64_t mapped_bytes; /* address space */
	uint64_t rss_bytes;
	uint64_t anon_bytes; /* resident minus shared pages: about RssAnon */
};

/* From /proc/self/status: costs some tens of microseconds. */
struct mt_rss_full {
	uint64_t rss_bytes;   /* VmRSS */
	uint64_t peak_bytes;  /* VmHWM */
	uint64_t anon_bytes;  /* RssAnon */
	uint64_t file_bytes;  /* RssFile */
	uint64_t shmem_bytes; /* RssShmem */
	uint64_t swap_bytes;  /* VmSwap */
};

/* Fill *out. Return false, and leave *out as it is, if /proc cannot be read. */
bool mt_rss_read_quick(struct mt_rss_quick *out);
bool mt_rss_read_full(struct mt_rss_full *out);

/* Keeps /proc/self/statm open for mt_rss_read_quick on the calling thread, which makes a read three
 * times cheaper. Only for a thread with its own descriptor table: no other code may be given that
 * number or close it. */
void mt_rss_keep_statm_open(void);

/* As mt_rss_read_full, from a file in the format of /proc/PID/status. */
bool mt_rss_read_status(const char *path, struct mt_rss_full *out);

/* Reads how many bytes lie in transparent huge pages, from the same file. Returns as it does. */
bool mt_rss_read_huge(uint64_t *out_bytes);

/* Totals of the whole process since its start. Source: getrusage(2). */
struct mt_rss_usage {
	uint64_t minor_faults_count; /* page faults that needed no I/O */
	uint64_t cpu_ns;             /* user and system time */
	uint64_t system_ns;
};

/* Fills *out, for the process. Returns false, and leaves it as it is, if the kernel refuses.
 * Source: getrusage(2). */
bool mt_rss_read_usage(struct mt_rss_usage *out);

/* ---- shared pages ---- */

/* Whether this process shares pages with forked processes. Python's collector writes to the header
 * of each object, and the kernel copies a shared page at the first write: a collection would then
 * use more memory, not less. Owns a count of forks and the kernel's last reply. Any thread may
 * call. Takes no lock. */

#define MT_SHARED_PAGES_MAX_BYTES (2u << 20) /* sharing less is ignored */

/* Returns whether MT_SHARED_PAGES_MAX_BYTES or less are shared. Asks the kernel after a fork, and
 * keeps a positive reply until the next fork. False if the kernel cannot tell. Opens a file. */
bool mt_rss_shared_are_few(void);

/* As mt_rss_shared_are_few, but never asks the kernel: false after a fork until the other
 * function has asked. */
bool mt_rss_shared_are_known_few(void);

/* Returns the number of forks so far, including the one that made this process. Each fork counts
 * once before and once after it. A reply of mt_rss_shared_are_few is valid while this is equal. */
uint32_t mt_rss_shared_forks(void);

/* Counts a fork: called before it, and after it in parent and child. Async-signal-safe. */
void mt_rss_shared_note_fork(void);

#endif
