/* ctl/process/smaps.h -- what the kernel says of a process's memory, page by page:
 * /proc/PID/smaps_rollup and /proc/PID/smaps. The kernel walks the page tables for it (about 0.1 s
 * for 4 GB of small pages, and of huge ones next to nothing), with the process's mmap lock held for
 * reading: it is for mtctl and never for the shim. Figures are bytes. PSS charges a page that n
 * processes map with 1/n to each: the one figure that may be added up over processes. Source:
 * proc_pid_smaps(5). */
#ifndef MT_CTL_PROCESS_SMAPS_H
#define MT_CTL_PROCESS_SMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/process/process.h"

/* Member, and the kernel's word for it. */
#define MT_SMAPS_FIELDS(X)                                                                         \
	X(rss_bytes, "Rss")                                                                        \
	X(pss_bytes, "Pss")                                                                        \
	X(pss_anon_bytes, "Pss_Anon")                                                              \
	X(pss_file_bytes, "Pss_File")                                                              \
	X(pss_shmem_bytes, "Pss_Shmem")                                                            \
	X(shared_clean_bytes, "Shared_Clean")                                                      \
	X(shared_dirty_bytes, "Shared_Dirty")                                                      \
	X(private_clean_bytes, "Private_Clean")                                                    \
	X(private_dirty_bytes, "Private_Dirty")                                                    \
	X(anonymous_bytes, "Anonymous")                                                            \
	X(lazy_free_bytes, "LazyFree")                                                             \
	X(huge_bytes, "AnonHugePages")                                                             \
	X(huge_shmem_bytes, "ShmemPmdMapped")                                                      \
	X(swap_bytes, "Swap")                                                                      \
	X(swap_pss_bytes, "SwapPss")                                                               \
	X(locked_bytes, "Locked")

struct mt_smaps_sizes {
#define X(name, word) uint64_t name;
	MT_SMAPS_FIELDS(X)
#undef X
	/* pss_anon, _file and _shmem are known: in a sum over mappings by what they map, with the
	 * written pages of private file mappings among the files; in a rollup by page, from Linux
	 * 5.0 on; not in one mapping */
	bool pss_by_kind;
};

enum mt_smaps_kind {
	/* no file behind it: heap arenas, mmap, stacks; the one kind that fork shares copy-on-write
	 * in bulk */
	MT_SMAPS_ANON,
	/* /dev/shm, memfd, System V, anonymous MAP_SHARED: memory, although it has a name */
	MT_SMAPS_SHM,
	/* pages of a file; what was written in a private one is anonymous, and lies in its
	 * anonymous_bytes */
	MT_SMAPS_FILE,
	MT_SMAPS_SPECIAL /* the kernel's own: vdso, vvar */
};

struct mt_smaps_mapping {
	uint64_t start, end;
	enum mt_smaps_kind kind;
	bool is_shared; /* MAP_SHARED */
	bool is_writable;
	char name[96]; /* path or "[heap]", cut and cleaned; "" for none */
	struct mt_smaps_sizes sizes;
};

struct mt_smaps {
	struct mt_smaps_sizes total;   /* the sum over the mappings */
	struct mt_smaps_mapping *list; /* by address */
	size_t count;
	/* where the kernel put its page: the same after a fork, another one after an exec; 0 none
	 */
	uint64_t vdso;
};

/* The process as a whole. UNKNOWN: it is gone, or another one has its pid. FOREIGN: another user's.
 * *out only on success. */
enum mt_err mt_smaps_read_total(const struct mt_process *process, struct mt_smaps_sizes *out,
				struct mt_why *why);

/* Every mapping as well. The caller frees with mt_smaps_free. */
enum mt_err mt_smaps_read(const struct mt_process *process, struct mt_smaps *out,
			  struct mt_why *why);
void mt_smaps_free(struct mt_smaps *smaps);

/* The text of /proc/PID/smaps; pure. */
void mt_smaps_parse(const char *text, struct mt_smaps *out);

/* The text of /proc/PID/smaps_rollup; false where it has no Rss line. Pure. */
bool mt_smaps_parse_total(const char *text, struct mt_smaps_sizes *out);

/* Of one kind of mapping, all added up. */
void mt_smaps_sum(const struct mt_smaps *smaps, enum mt_smaps_kind kind,
		  struct mt_smaps_sizes *out);

/* The kind of a mapping that has this name in maps. */
enum mt_smaps_kind mt_smaps_kind_of(const char *name, bool is_shared);

/* ---- copy-on-write: what a forked child still shares with its tree, and what it holds of its
 * own ---- */

struct mt_smaps_fork {
	/* the child has its parent's address space; false after an exec: then all below is 0 */
	bool is_fork;
	/* anonymous pages that others map as well: still one copy of them. Exact */
	uint64_t shared_bytes;
	/* An estimate, at most private_bytes: pages that were the parent's at the fork, and of
	 * which there are two now. smaps tells how many pages of a mapping are private, not which;
	 * so it is the child's private pages where the parent maps anonymous memory too, but no
	 * more than what the parent has there beyond the pages that are still shared. Too high by
	 * what both have allocated in what was free at the fork (ctl/process/cow_sharing.h tells
	 * that apart), too low by what the parent has freed since. Who of the two wrote makes no
	 * difference. */
	uint64_t copied_bytes;
	/* anonymous pages that the child alone maps: copied and new. Exact */
	uint64_t private_bytes;
};

/* Pure. Only anonymous mappings are looked at: the written data of libraries is left out. */
void mt_smaps_compare(const struct mt_smaps *child, const struct mt_smaps *parent,
		      struct mt_smaps_fork *out);

#endif
