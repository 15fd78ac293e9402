/* ctl/process/ancestry.h -- who descends from whom in a list of mt_process_read_all. Pure. */
#ifndef MT_CTL_PROCESS_ANCESTRY_H
#define MT_CTL_PROCESS_ANCESTRY_H

#include "ctl/process/process.h"

#define MT_ANCESTRY_NONE ((size_t)-1)

/* The place of a pid in the list, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_find(const struct mt_process *list, size_t count, pid_t pid);

/* Whether `pid` is `root` or descends from it, through whatever processes. */
bool mt_ancestry_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root);

/* The place of the nearest ancestor that carries the shim, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_shimmed_parent(const struct mt_process *list, size_t count, size_t place);

#endif
