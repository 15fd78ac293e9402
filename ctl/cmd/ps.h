/* ctl/cmd/ps.h -- the tree of `mtctl ps --tree`; ps.c reads the command line and prints the list.
 */
#ifndef MT_CTL_CMD_PS_H
#define MT_CTL_CMD_PS_H

#include <jansson.h>

#include "ctl/process/process_tree.h"
#include "ctl/process/process_list.h"

/* Prints the tree of `root`; 0: the trees of all shimmed processes. Returns the exit code. */
int mt_ps_tree(pid_t root, bool json);

/* Returns the sums of a tree as an object. */
json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree);

#endif
