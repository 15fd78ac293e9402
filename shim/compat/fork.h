/* compat/fork.h -- wrappers of fork, _Fork, clone and syscall. Owns the addresses of their next
 * functions. Any thread may call the wrappers, also in signal handlers. Take no lock but the purge
 * lock, before all other locks of fork. */
#ifndef MT_COMPAT_FORK_H
#define MT_COMPAT_FORK_H

/* Finds the next functions in line, and libc's variables, once, from the constructor. */
void mt_fork_start(void);

/* pthread_atfork handlers: hold the purge lock. */
void mt_fork_prepare(void);
void mt_fork_parent(void);
void mt_fork_child(void);

#endif
