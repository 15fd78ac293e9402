/* ctl/process/stats_dir_check.h -- whether the library would keep its files in a directory, by the
 * rules of shim/core/files.c. Looks at open directories alone: never follows a path, never changes
 * anything. Any thread may call, takes no lock. */
#ifndef MT_CTL_PROCESS_STATS_DIR_CHECK_H
#define MT_CTL_PROCESS_STATS_DIR_CHECK_H

#include <sys/types.h>

/* directory: a descriptor of it, or -1 where it does not exist; then parent is a descriptor of the
 * directory in which a process of user uid would make it, or -1 where that does not exist either.
 * Returns why the library keeps no files there, as the end of a sentence that the path begins; NULL
 * where it does, or where the kernel does not say. */
const char *mt_stats_dir_check(int directory, int parent, uid_t uid);

#endif
