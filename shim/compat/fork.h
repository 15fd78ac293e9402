/* compat/fork.h -- wraps fork, and holds the purge lock over it: a child of a half-done purge could
 * never finish it. Any thread, and the signal handler of a program of one thread, may call the
 * wrapper. Takes the purge lock before all other locks of fork. */
#ifndef MT_COMPAT_FORK_H
#define MT_COMPAT_FORK_H

#include <stdbool.h>

/* Finds the next function in line and libc's variables. Called once, from the constructor. */
void mt_fork_start(void);

/* Takes the purge lock, for a copy of the process; waits up to a second. Returns false if it is
 * not taken: copy all the same; a child that is made in the middle of a purge cannot purge that
 * arena. A handler may have interrupted malloc, with a lock for which the worker waits while it has
 * the purge lock: that is noticed within a ms in a program of one thread, within 10 ms or more in
 * others. */
bool mt_fork_hold_purge(void);

/* pthread_atfork handlers, around mt_fork_hold_purge. */
void mt_fork_prepare(void);
void mt_fork_parent(void);
void mt_fork_child(void);

#endif
