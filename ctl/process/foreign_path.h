/* ctl/process/foreign_path.h -- opens a directory by a path that another process has chosen (its
 * MT_DIR). Such a path may lead through /proc, where a lookup can wait for a process: map_files
 * takes its mmap_lock. So the path is walked name by name, and no name is looked up in a proc file
 * system. Any thread may call. */
#ifndef MT_CTL_PROCESS_FOREIGN_PATH_H
#define MT_CTL_PROCESS_FOREIGN_PATH_H

#include <stdbool.h>

/* Opens the directory for reading, close-on-exec. start: a descriptor of the directory where a
 * relative path begins. It is always closed; -1 fails, with errno unchanged. is_root: start is also
 * the root of the path, so that "/" leads there and ".." does not lead above it. Symbolic links are
 * followed, except as the last name. Returns -1 with errno: EXDEV where the path leads through a
 * proc file system; ELOOP for a link as the last name, more than 40 links or 4,000 names; else the
 * errno of openat(2). */
int mt_foreign_path_open(int start, bool is_root, const char *path);

/* Returns whether names in this directory are looked up in a proc file system. Also true where
 * fstatfs(2) fails. */
bool mt_foreign_path_is_proc(int fd);

#endif
