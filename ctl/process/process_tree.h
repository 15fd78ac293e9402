/* ctl/process/process_tree.h -- a process and all that descend from it, by fork, exec or spawn,
 * with the shim or without, and what they hold together. What cannot be told of a member (another
 * user's, ended meanwhile) is left out of the sums and counted as unknown: a tree is a look at
 * processes that go on living, and no two of its figures are of the same moment. */
#ifndef MT_CTL_PROCESS_PROCESS_TREE_H
#define MT_CTL_PROCESS_PROCESS_TREE_H

#include "ctl/process/process_list.h"
#include "ctl/process/smaps.h"

struct mt_member {
	struct mt_process process;
	enum mt_process_state state; /* of a shimmed one */
	size_t parent;               /* its place in the tree, MT_ANCESTRY_NONE for a root */
	unsigned depth;              /* 0 for a root */
	bool memory_known;
	/* where memory_known; with the mappings if they were asked for */
	struct mt_smaps smaps;
	/* of a member whose parent is one and known; needs the mappings */
	struct mt_smaps_fork fork;
	struct mt_process_list_sums heap; /* MT_PROCESS_AWAKE */
	bool uses_cuda;
};

struct mt_process_tree_sums {
	uint64_t rss_bytes; /* a page that n members map is in it n times */
	/* the honest sum; pages shared with strangers count in part */
	uint64_t pss_bytes;
	uint64_t swap_bytes; /* likewise (SwapPss) */
	/* of the PSS, as far as the kernel tells: /dev/shm, memfd, System V, anonymous MAP_SHARED
	 */
	uint64_t shm_bytes;
	uint64_t file_bytes; /* of the PSS: pages of files */
	/* what would go if the member ended: Private_Clean + Private_Dirty */
	uint64_t private_bytes;
	uint64_t shared_bytes, copied_bytes; /* of forked members, copy-on-write: see smaps.h */
	uint64_t heap_live_bytes, heap_idle_bytes, gpu_bytes;
};

enum mt_process_tree_detail { MT_PROCESS_TREE_TOTALS, MT_PROCESS_TREE_MAPPINGS };

struct mt_process_tree {
	enum mt_process_tree_detail detail; /* nothing is known of copies without the mappings */
	/* every parent before its children, who follow it at once */
	struct mt_member *list;
	size_t count;
	size_t unknown_count; /* members whose memory could not be read */
	size_t awake_count;
	/* members that share an address space with their parent, copy-on-write */
	size_t forks_count;
	bool uses_cuda;
	struct mt_process_tree_sums sums;
};

/* root: the process above all, shimmed or not; 0: every shimmed process of one's own and all that
 * descend from those. UNKNOWN: no such process; with root 0 an empty tree is no error. Says on
 * stderr whose stats file is refused. The caller frees. */
enum mt_err mt_process_tree_read(pid_t root, enum mt_process_tree_detail detail,
				 struct mt_process_tree *out, struct mt_why *why);
void mt_process_tree_free(struct mt_process_tree *tree);

/* One member's own figures in the shape of the sums; 0 for what is not known of it. */
void mt_process_tree_member_sums(const struct mt_member *member, struct mt_process_tree_sums *out);

bool mt_member_is_awake(const struct mt_member *member);

/* "asleep", "awake" or "refused"; "plain" for one without the shim, and for one that keeps the
 * reader of its maps waiting. */
const char *mt_member_state_word(const struct mt_member *member);

#endif
