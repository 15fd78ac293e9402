/* ctl/channel/process_tree.h -- a process and all its descendants by fork, exec or spawn, with the
 * shim or without, and the memory of them all. The processes run on while they are read, so no two
 * figures are of the same moment. A member that is not readable (of another user, or ended
 * meanwhile) is left out of the sums and counted in unknown_count. One thread may call. */
#ifndef MT_CTL_CHANNEL_PROCESS_TREE_H
#define MT_CTL_CHANNEL_PROCESS_TREE_H

#include "ctl/channel/process_list.h"
#include "ctl/process/smaps.h"

struct mt_member {
	struct mt_process process;
	enum mt_process_state state; /* of a shimmed one */
	size_t parent;               /* index in the tree, MT_ANCESTRY_NONE for a root */
	unsigned depth;              /* 0 for a root */
	bool memory_known;
	/* if memory_known; with the mappings if they were asked for */
	struct mt_smaps smaps;
	/* if the memory of both it and its parent is known, with the mappings */
	struct mt_smaps_fork fork;
	struct mt_process_tree_sums heap; /* MT_PROCESS_AWAKE */
	bool uses_cuda;
};

enum mt_process_tree_detail { MT_PROCESS_TREE_TOTALS, MT_PROCESS_TREE_MAPPINGS };

struct mt_process_tree {
	enum mt_process_tree_detail detail; /* copies are known with the mappings only */
	/* every parent directly before its children */
	struct mt_member *list;
	size_t count;
	size_t unknown_count; /* members whose memory could not be read */
	/* members that share an address space with their parent, copy-on-write */
	size_t forks_count;
	bool uses_cuda;
	struct mt_process_tree_sums sums;
};

/* Reads the tree of process `root`; 0: of every shimmed process that the caller may read. Returns
 * MT_ERR_UNKNOWN if there is no such process; an empty tree of root 0 is no error. With the
 * mappings, prints on stderr which stats file is refused. The caller frees with
 * mt_process_tree_free. */
enum mt_err mt_process_tree_read(pid_t root, enum mt_process_tree_detail detail,
				 struct mt_process_tree *out, struct mt_error_reason *why);
void mt_process_tree_free(struct mt_process_tree *tree);

/* Writes the figures of one member to *out, 0 for what is not known. */
void mt_process_tree_member_sums(const struct mt_member *member, struct mt_process_tree_sums *out);

/* Returns "asleep", "awake" or "refused"; "plain" for a member without the shim, and for one whose
 * maps cannot be read in time. */
const char *mt_member_state_word(const struct mt_member *member);

/* Returns the sums of a tree as an object, with its counts. The caller owns it. */
json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree);

#endif
