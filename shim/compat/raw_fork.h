/* compat/raw_fork.h -- wraps _Fork, clone and syscall: children that are made without fork's
 * handlers. Any thread and any signal handler may call the wrappers. Owns the addresses of the next
 * functions. Takes the purge lock around the call. */
#ifndef MT_COMPAT_RAW_FORK_H
#define MT_COMPAT_RAW_FORK_H

/* Finds the next functions in line. Called once, from the constructor. */
void mt_raw_fork_start(void);

#endif
