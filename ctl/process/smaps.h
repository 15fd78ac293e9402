/* ctl/process/smaps.h -- what the kernel says of the memory of a process, page by page:
 * /proc/PID/smaps_rollup and /proc/PID/smaps. Sizes are bytes. PSS charges a page that n processes
 * map with 1/n to each of them, so that it may be added up over processes. Source:
 * proc_pid_smaps(5).
 *
 * The kernel walks the page tables for it (about 0.1 s for 4 GB of small pages, little for huge
 * pages) and holds the mmap_lock of the process for reading. So only mtctl does this, never the
 * shim. One thread may call. */
#ifndef MT_CTL_PROCESS_SMAPS_H
#define MT_CTL_PROCESS_SMAPS_H

#include <sys/types.h>

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

/* pss_anon, pss_file and pss_shmem: in a sum over mappings they go by what is mapped, and written
 * pages of private file mappings count as file. In a rollup they go by page, from Linux 5.0 on. 0
 * for one mapping. */
struct mt_smaps_sizes {
#define X(name, word) uint64_t name;
	MT_SMAPS_FIELDS(X)
#undef X
};

enum mt_smaps_kind {
	/* no file: heap, mmap, stacks. The kind that fork shares copy-on-write in bulk */
	MT_SMAPS_ANON,
	/* /dev/shm, memfd, System V, anonymous MAP_SHARED: memory, although it has a name */
	MT_SMAPS_SHM,
	/* pages of a file. Written pages of a private mapping are in anonymous_bytes */
	MT_SMAPS_FILE,
	MT_SMAPS_SPECIAL /* the kernel's own: vdso, vvar */
};

/* A line of /proc/PID/maps, which is also the head of a mapping in smaps. */
struct mt_maps_line {
	uint64_t start, end;
	char permissions[8]; /* "r-xp" */
	uint64_t offset;     /* in the file */
	dev_t device;
	uint64_t inode;
	char *name; /* within the line: the path, "[heap]", "" for none */
};

/* Reads the next valid line of the text, which it cuts into its lines. Begins with *text at the
 * start, which may be NULL; returns false at the end. */
bool mt_maps_next(char **text, struct mt_maps_line *out);

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
	/* address of the vdso, which a fork keeps and an exec changes; 0: none */
	uint64_t vdso;
};

/* Reads the sums over the whole process. Returns MT_ERR_UNKNOWN if it has ended or another
 * process has its pid, MT_ERR_FOREIGN for a process of another user, MT_ERR_SYSTEM if the read
 * does not return in time. */
enum mt_err mt_smaps_read_total(const struct mt_process *process, struct mt_smaps_sizes *out,
				struct mt_error_reason *why);

/* The same with every mapping. The caller frees with mt_smaps_free. */
enum mt_err mt_smaps_read(const struct mt_process *process, struct mt_smaps *out,
			  struct mt_error_reason *why);
void mt_smaps_free(struct mt_smaps *smaps);

/* Parses the text of /proc/PID/smaps, which it cuts into its lines. */
void mt_smaps_parse(char *text, struct mt_smaps *out);

/* Parses the text of /proc/PID/smaps_rollup. Returns false if it has no Rss line. Pure. */
bool mt_smaps_parse_total(const char *text, struct mt_smaps_sizes *out);

/* Returns the kind of a mapping with this name in maps. */
enum mt_smaps_kind mt_smaps_kind_of(const char *name, bool is_shared);

/* ---- copy-on-write: pages that a forked child shares, and pages of its own ---- */

struct mt_smaps_fork {
	/* the child has the address space of its parent. False after an exec: then all figures are
	 * 0 */
	bool is_fork;
	/* anonymous pages that other processes map as well. Exact */
	uint64_t shared_bytes;
	/* An estimate, up to private_bytes: pages of the parent at the fork that exist twice now,
	 * whichever of the two wrote. smaps tells how many pages of a mapping are private, not
	 * which. So these are the private pages of the child if the parent maps anonymous memory
	 * too, up to what the parent has there beyond the shared pages. Too high by what both have
	 * allocated since the fork in memory that was free then (mt_cow_sharing_share() corrects
	 * it), too low by what the parent has freed since. */
	uint64_t copied_bytes;
	/* anonymous pages that only the child maps: copied and new. Exact */
	uint64_t private_bytes;
};

/* Compares the anonymous mappings of the two; written data of libraries is left out. Pure. */
void mt_smaps_compare(const struct mt_smaps *child, const struct mt_smaps *parent,
		      struct mt_smaps_fork *out);

/* ---- copy-on-write by content ---- */

/* Estimates how many private pages of a forked child are copies of its
 * parent's pages. smaps cannot tell a page that was copied on write from a page that both allocated
 * after the fork. The content can: a copy still has mostly the same words. Reads a sample of pages
 * that are resident in both. Never writes, and makes no page resident. One thread may call. */

/* Sets *out_share to the share of compared pages that have mostly the same content, 0 to 1. Returns
 * false if too few pages could be compared, or may not be read (ptrace(2), access mode
 * checking). */
bool mt_cow_sharing_share(pid_t child, const struct mt_smaps *child_smaps, pid_t parent,
			  const struct mt_smaps *parent_smaps, double *out_share);

/* Returns whether half of the words that are not 0 in both pages are equal. *out_tells is false
 * if nearly all words are 0. Pure. */
bool mt_cow_sharing_alike(const uint64_t *one, const uint64_t *other, size_t words,
			  bool *out_tells);

#endif
