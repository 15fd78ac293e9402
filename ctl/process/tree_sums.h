/* ctl/process/tree_sums.h -- figures of a process that can be added up over a tree: for ps, trim,
 * top, serve and diagnose. The table is MT_TREE_FIGURES of core/figures.def. A figure that is not
 * known is 0. Pure: any thread may call. */
#ifndef MT_CTL_PROCESS_TREE_SUMS_H
#define MT_CTL_PROCESS_TREE_SUMS_H

#include "ctl/process/memory_parts.h"

struct mt_process_tree_sums {
#define X(name, key, from, column, cell, listed, heading, help) uint64_t name;
	MT_TREE_FIGURES(X)
#undef X
	struct mt_memory_parts parts; /* of rss_bytes; all of it other where nothing is known */
};

/* What a process or a tree has: the columns `column` and `cell` of the table. */
enum {
	MT_SUM_none = 0,
	MT_SUM_any = 1u << 0,
	MT_SUM_memory = 1u << 1,
	MT_SUM_fork = 1u << 2,
	MT_SUM_shm = 1u << 3,
	MT_SUM_swap = 1u << 4,
	MT_SUM_heap = 1u << 5,
	MT_SUM_gpu = 1u << 6,
};

struct mt_tree_figure {
	const char *key,
		*heading;      /* heading: of a column; "" none. key NULL: the end of the list */
	unsigned column, cell; /* MT_SUM_... */
	bool is_listed;
	size_t offset, from_offset; /* in the sums, and in struct mt_stats_snapshot or behind it */
};
const struct mt_tree_figure *mt_tree_figures(void);
uint64_t mt_tree_figure_value(const struct mt_tree_figure *figure,
			      const struct mt_process_tree_sums *sums);

/* Fills in what a process has published of its heap and of its device memory. */
void mt_tree_sums_read(struct mt_process_tree_sums *sums, const struct mt_stats_snapshot *now);

void mt_tree_sums_add(struct mt_process_tree_sums *to, const struct mt_process_tree_sums *from);

/* Sets a member for each figure with a key, null where `has` has not what its cell needs. listed:
 * only those of `ps`. The parts are left out. */
void mt_tree_sums_set_json(json_t *object, const struct mt_process_tree_sums *sums, unsigned has,
			   bool listed);

#endif
