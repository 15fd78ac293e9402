/* ctl/process/ancestry.h -- who descends from whom in a list of mt_process_list. Pure. */
#ifndef MT_CTL_TREE_H
#define MT_CTL_TREE_H

#include "ctl/process/process.h"

#define MT_TREE_NONE ((size_t)-1)

/* The place of a pid in the list, or MT_TREE_NONE. */
size_t mt_tree_find(const struct mt_process *list, size_t count, pid_t pid);

/* Whether `pid` is `root` or descends from it, through whatever processes. */
bool mt_tree_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root);

/* The place of the nearest ancestor that carries the shim, or MT_TREE_NONE. */
size_t mt_tree_shimmed_parent(const struct mt_process *list, size_t count, size_t place);

#endif
