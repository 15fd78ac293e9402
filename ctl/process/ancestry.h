/* ctl/process/ancestry.h -- ancestors and descendants in a list of processes sorted by pid, as
 * mt_process_read_all returns one. Pure: any thread may call. */
#ifndef MT_CTL_PROCESS_ANCESTRY_H
#define MT_CTL_PROCESS_ANCESTRY_H

#include "ctl/process/process.h"

#define MT_ANCESTRY_NONE ((size_t)-1)

/* Returns the index of the process with this pid, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_find(const struct mt_process *list, size_t count, pid_t pid);

/* Returns whether `pid` is `root` or a descendant of it. Processes between the two need not carry
 * the shim. */
bool mt_ancestry_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root);

/* Returns the index of the nearest ancestor that carries the shim, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_shimmed_parent(const struct mt_process *list, size_t count, size_t place);

#endif
