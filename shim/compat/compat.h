/* compat/compat.h -- wrappers of libc's functions that only unusual programs need. Each file owns
 * the addresses of its next functions, and has what it wraps and why. Any thread may call the
 * wrappers, and those of fork, _Fork, clone and syscall in signal handlers too. Take no lock but
 * the purge lock, before all other locks of fork. */
#ifndef MT_COMPAT_H
#define MT_COMPAT_H

#include <stdbool.h>

/* Find the next functions in line, once, from the constructor: fork (and libc's variables); _Fork,
 * clone and syscall; fopen. mt_single_thread_init: unshare, setns and the functions for ids, where
 * the shim is off: they may be called in any child, where the loader may not be called. */
void mt_fork_start(void);
void mt_raw_fork_start(void);
void mt_thread_count_start(void);
void mt_single_thread_init(void);

/* Takes the purge lock, for a copy of the process: a child of a half-done purge could never finish
 * it. Waits up to a second. Returns false if it is not taken: copy all the same; a child that is
 * made in the middle of a purge cannot purge that arena. A handler may have interrupted malloc,
 * with a lock for which the worker waits while it has the purge lock: that is noticed within a ms
 * in a program of one thread, within 10 ms or more in others. */
bool mt_fork_hold_purge(void);

/* pthread_atfork handlers, around mt_fork_hold_purge. */
void mt_fork_prepare(void);
void mt_fork_parent(void);
void mt_fork_child(void);

/* Notes a fork, in the parent and in the child, on the thread that called it. */
void mt_thread_count_note_fork(void);

/* ---- dlopen ---- */

/* dlopen is wrapped to leave out the flag RTLD_DEEPBIND over the embedded allocator. A
 * library opened with it binds malloc to libc's, past every preloaded allocator. libc's strdup and
 * getline still return blocks of the preloaded one, and the library's first free of such a block
 * crashes (PHP opens its modules so). Logged at level info. MT_ALLOCATOR=system keeps the flag,
 * since all blocks are libc's there. Takes no lock. Other calls jump to the next dlopen with the
 * caller's return address, by which the loader finds namespace and search path
 * (dlopen.S). */

/* Returns the mode to open with, for a mode that has RTLD_DEEPBIND. Keeps errno. */
int mt_deepbind_mode(int mode);

/* Finds the next dlopen in line. The word that dlopen.S reads stays NULL if there is
 * none. */
void mt_deepbind_init(void);

#endif
