/* sys/raw_clone.h -- whether this process is a copy of the one that we know, made without fork's
 * handlers: by clone, _Fork or the bare system call, as sandboxes and container tools do. Its
 * program may have had one thread and be in its right to allocate there; but the worker stayed
 * behind, with whatever it held in that moment. The kernel tells: a page that a copy finds empty. A
 * child that shares our memory (vfork, CLONE_VM) is none: there the worker still runs, and will let
 * go. Rank 0. */
#ifndef MT_SYS_RAW_CLONE_H
#define MT_SYS_RAW_CLONE_H

#include <stdbool.h>
#include <sys/types.h>

/* The worker, before anything else. Where the kernel cannot (before Linux 4.14), no copy is ever
 * known. */
void mt_raw_clone_mark(void);

/* In a child with fork's handlers: it is no stray, until it is copied in its turn. */
void mt_raw_clone_fork_child(void);

/* Any thread; a load or two. */
bool mt_raw_clone_is_child(void);

/* Whether this thread of the process that we are a copy of was the worker: what it holds here,
 * nobody will give back. */
bool mt_raw_clone_was_worker(pid_t thread);

#endif
