/* ctl/process/foreign_path.h -- a directory by a path that another process has chosen (its MT_DIR).
 * The path may lead through /proc, where the lookup of a name can wait for a process: map_files
 * takes its mmap_lock. So the path is walked name by name, and no name is looked up in a proc file
 * system. */
#ifndef MT_CTL_PROCESS_FOREIGN_PATH_H
#define MT_CTL_PROCESS_FOREIGN_PATH_H

#include <stdbool.h>

/* Opens the directory for reading, close-on-exec. start: a descriptor of the directory where a
 * relative path begins; it is closed in any case, and -1 fails with errno as it is. is_root: start
 * is the root of the path, too: "/" leads there and ".." does not lead above it. Symbolic links are
 * followed, but not the last name. Returns -1 with errno: EXDEV where the path leads through a proc
 * file system, ELOOP for a link as the last name, more than 40 links or 4,000 names, else that of
 * openat(2). Any thread. */
int mt_foreign_path_open(int start, bool is_root, const char *path);

/* Whether a name in this directory would be looked up in a proc file system; also where the kernel
 * does not say. */
bool mt_foreign_path_is_proc(int fd);

#endif
