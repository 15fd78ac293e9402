/* ctl/cmd/ps.h -- the two dresses of `mtctl ps`; ps.c reads the command line and has the plain
 * one. */
#ifndef MT_CTL_CMD_PS_H
#define MT_CTL_CMD_PS_H

#include <jansson.h>

#include "ctl/process/process_tree.h"
#include "ctl/process/process_list.h"

/* `ps --tree`: the tree of `root`, for 0 those of all shimmed processes. Answers the exit code.
 */
int mt_ps_tree(pid_t root, bool json);

/* The sums of a tree as an object, and of one member: null for what is not known. */
json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree);

#endif
