/* ctl/diagnose/last_summary.h -- what a process near its limit held, and what filled the limit: for
 * `mtctl last` and the page that it writes. For one thread. */
#ifndef MT_CTL_DIAGNOSE_LAST_SUMMARY_H
#define MT_CTL_DIAGNOSE_LAST_SUMMARY_H

#include <stdio.h>

#include "ctl/diagnose/recorded.h"
#include "ctl/figures/memory_parts.h"

/* What may have filled the limit: a part of the process, or what else is charged to its cgroup. */
#define MT_LAST_FILLERS(X)                                                                         \
	X(LIVE, "live", "memory in use by the program")                                            \
	X(REUSABLE, "reusable", "free memory in its allocator")                                    \
	X(FILES, "files", "its mapped files and shared memory")                                    \
	X(OTHER, "other", "its mappings outside of malloc")                                        \
	X(PROCESSES, "processes", "other processes of the cgroup")                                 \
	X(SHMEM, "shared_memory", "files in memory (tmpfs, /dev/shm) that no process has mapped")  \
	X(KERNEL, "kernel", "memory of the kernel, charged to the cgroup")

enum mt_last_filler {
#define X(id, word, text) MT_LAST_FILLER_##id,
	MT_LAST_FILLERS(X) MT_LAST_FILLER_COUNT
#undef X
};

/* What is told of one process. */
struct mt_last_summary {
	const struct mt_last_look *look;
	struct mt_memory_parts parts, before; /* at the end, and up to a minute before */
	double seconds;                       /* between the two; 0: there is no sample before */
	enum mt_last_filler filler;
	uint64_t filler_bytes;
	struct mt_facts *facts;
	struct mt_diagnosis *diagnosis;
};

/* Fills *out. The look must outlive it. The caller frees with mt_last_summary_free. */
void mt_last_summary_find(const struct mt_last_look *look, struct mt_last_summary *out);
void mt_last_summary_free(struct mt_last_summary *summary);

/* Returns the filler's word for JSON. */
const char *mt_last_summary_filler(enum mt_last_filler filler);

/* Write text: what became of the process and what filled the limit; the lines if the heap grew,
 * the cgroup and its other processes. */
void mt_last_summary_write_head(const struct mt_last_summary *summary, FILE *to);
void mt_last_summary_write_growth(const struct mt_last_summary *summary, FILE *to);

#endif
