/* sys/raw_clone.h -- detects a process that was copied without fork's handlers: by clone, _Fork or
 * the bare system call, as sandboxes and container tools do. Such a child may allocate, but the
 * worker thread does not exist in it, and a lock that the worker held stays locked. Owns one page
 * with MADV_WIPEONFORK: the child finds it empty. A child that shares the memory (vfork, CLONE_VM)
 * is not a copy: the worker still runs and releases its locks. Any thread may call. Takes no
 * lock. */
#ifndef MT_SYS_RAW_CLONE_H
#define MT_SYS_RAW_CLONE_H

#include <stdbool.h>
#include <sys/types.h>

/* Marks the page. The worker thread calls this first. Before Linux 4.14 it has no effect and no
 * copy is ever detected. */
void mt_raw_clone_mark(void);

/* Forgets the mark, in a child that went through fork's handlers. */
void mt_raw_clone_fork_child(void);

/* Returns whether this process is a copy made without fork's handlers. Costs two loads. */
bool mt_raw_clone_is_child(void);

/* Returns whether this process is such a copy, and `thread` was the worker thread of the original:
 * a lock that it holds here is never released. */
bool mt_raw_clone_was_worker(pid_t thread);

#endif
