/* core/worker.h -- the worker thread: it sleeps on the control file, carries out mtctl's requests
 * and runs the components' ticks. Owns that thread. Any thread may call, unless a comment says
 * otherwise. Takes no lock. */
#ifndef MT_CORE_WORKER_H
#define MT_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts the thread; does nothing if it runs or is being started. Allocates (pthread_create):
 * never call it inside the allocator. Returns false if the thread cannot be started; a later
 * call tries again. */
bool mt_worker_start(void);

bool mt_worker_is_running(void);

/* Returns whether the kernel says that the thread sleeps, as it does while it waits for a lock; a
 * purge runs, or waits in the kernel. False if /proc does not tell. Opens a file. */
bool mt_worker_is_asleep(void);

/* Returns whether the worker may change its ids exactly as the calling thread may. Waits up to 0.1
 * s for a worker that is just starting. */
bool mt_worker_has_same_credentials(void);

/* Ends the thread for a while and waits up to 2 s for its end. Returns true if it is gone: then
 * call mt_worker_resume. If it returns false the worker goes on. */
bool mt_worker_pause(void);
void mt_worker_resume(void);

/* Resets the module in a forked child, where the thread does not exist. */
void mt_worker_fork_child(void);

/* ---- main exit ---- */

/* Ends a process whose main thread ended by pthread_exit. libc ends a process with its last thread,
 * and the shim's threads count. If the main thread is the program's only one, the worker ends, and
 * libc runs the exit handlers on the main thread. Otherwise one more thread waits until only
 * threads of the shim are left, and then calls exit(0) as libc does. If it cannot count the
 * threads, the shim's threads end instead, and libc ends the process itself. So a program that
 * would go on is never ended. Any thread may call. Owns that thread. Takes no lock. A main thread
 * that makes the exit system call, or that a seccomp filter kills, is handled by core/worker.c: no
 * exit handler runs then. */

/* Ends the worker or starts the waiting thread. Called once, on the main thread while it ends.
 * Waits up to 2 s for the worker's end. Never call it inside the allocator. */
void mt_worker_main_exit_handle(void);

/* Tells whether the end of the main thread will be noticed: heap/account.c owns the key destructor
 * for it. While it is not watched the shim starts no thread. */
void mt_worker_main_exit_note_watched(bool watched);
bool mt_worker_main_exit_is_watched(void);

/* Returns how many of the process's threads belong to the shim. */
uint64_t mt_worker_main_exit_own_threads(void);

/* Forgets the thread in a forked child, where it does not exist. */
void mt_worker_main_exit_fork_child(void);

#endif
