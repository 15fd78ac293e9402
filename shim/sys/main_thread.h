/* sys/main_thread.h -- whether the main thread has ended. libc tells the end of a thread by key
 * destructors, but not of one that makes the exit system call by itself. The kernel tells of each:
 * it clears the word that libc has registered for the thread (set_tid_address(2)). Any thread.
 * Takes no lock, allocates nothing. Rank 0. */
#ifndef MT_SYS_MAIN_THREAD_H
#define MT_SYS_MAIN_THREAD_H

#include <stdbool.h>
#include <sys/types.h>

/* Finds the word; on the main thread, nothing on any other. */
void mt_main_thread_init(void);

/* In a forked child, whose main thread is the caller. Makes no system call. own_pid: of the child.
 */
void mt_main_thread_fork_child(pid_t own_pid);

/* The main thread ends by libc, which may free the word afterwards: from here on it counts as not
 * ended. */
void mt_main_thread_forget(void);

/* False as well where the kernel has no name for the word (it is built without
 * CONFIG_CHECKPOINT_RESTORE). A load. */
bool mt_main_thread_has_ended(void);

#endif
