/* sys/main_thread.h -- detects the end of the main thread. Key destructors miss a thread that makes
 * the exit system call itself. The kernel clears the word that libc registered for the thread
 * (set_tid_address(2)), so this module reads that word. Also reads the state and the exit status of
 * the ended thread from /proc/self/stat. Owns the word's address. Any thread may call. Takes no
 * lock, never allocates. */
#ifndef MT_SYS_MAIN_THREAD_H
#define MT_SYS_MAIN_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Finds the word. Call it on the main thread; on any other it does nothing. Keeps errno. */
void mt_main_thread_init(void);

/* Uses the calling thread's word, in a forked child. own_pid: the child's pid. Makes no system
 * call. */
void mt_main_thread_fork_child(pid_t own_pid);

/* Returns false in a child that another thread than the main thread has forked, and in all children
 * of that. True if it is not known. */
bool mt_main_thread_is_first(void);

/* Stops reading the word: the main thread ends through libc, which may free it. From here on
 * mt_main_thread_has_ended returns false. */
void mt_main_thread_forget(void);

/* Returns whether the main thread has ended by the exit system call. False also if the kernel
 * does not tell the word's address (no CONFIG_CHECKPOINT_RESTORE). Costs one load. */
bool mt_main_thread_has_ended(void);

/* Returns whether the main thread is a zombie and only the calling thread and own_threads more
 * threads are left. stat: text of /proc/self/stat. Pure. */
bool mt_main_thread_is_last(const char *stat, uint64_t own_threads);

/* Ends the process with the exit status or the signal of the main thread, if the calling thread
 * and own_threads more are the last ones. Returns if other threads are left. */
void mt_main_thread_end_process(uint64_t own_threads);

/* ---- raw clone ---- */

/* Detects a process that was copied without fork's handlers: by clone, _Fork or the bare system
 * call, as sandboxes and container tools do. Such a child may allocate, but the worker thread does
 * not exist in it, and a lock that the worker held stays locked. Owns one page with
 * MADV_WIPEONFORK: the child finds it empty. A child that shares the memory (vfork, CLONE_VM) is
 * not a copy: the worker still runs and releases its locks. Any thread may call. Takes no lock. */

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
