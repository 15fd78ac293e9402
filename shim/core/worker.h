/* core/worker.h -- the worker thread: it sleeps on the control file, carries out mtctl's requests
 * and runs the components' ticks; and the end of a process whose main thread has ended. Owns the
 * worker and the thread that waits for that end. Any thread may call, unless a comment says
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

/* Returns whether the thread may not run, since a thread has paused it or it has ended for good. */
bool mt_worker_is_paused(void);

/* Returns whether the kernel says that the thread sleeps, as it does while it waits for a lock; a
 * purge runs, or waits in the kernel. False if /proc does not tell. Opens a file. */
bool mt_worker_is_asleep(void);

/* Returns whether the worker may change its ids exactly as the calling thread may. Waits up to 0.1
 * s for a worker that is just starting. */
bool mt_worker_has_same_credentials(void);

/* Ends the thread for a while and waits up to 2 s for its end. Returns true if it is gone: then
 * call mt_worker_resume. The worker starts again once each thread that has paused it has resumed
 * it. If it returns false the worker goes on. */
bool mt_worker_pause(void);
void mt_worker_resume(void);

/* Returns how many of the process's threads belong to the shim. */
uint64_t mt_worker_own_threads(void);

/* Resets the module in a forked child, where its threads do not exist. */
void mt_worker_fork_child(void);

/* ---- a main thread that ends by pthread_exit ---- */

/* libc ends a process with its last thread, and the shim's threads count. If the main thread is the
 * program's only one, the worker ends, and libc runs the exit handlers on the main thread.
 * Otherwise one more thread waits until only threads of the shim are left, and then calls exit(0)
 * as libc does. If it cannot count the threads, the shim's threads end instead, and libc ends the
 * process itself. So a program that would go on is never ended. After the exit system call of the
 * main thread, or if a seccomp filter kills it, no exit handler runs: the worker ends by itself. */

/* Ends the worker or starts the waiting thread. Called once, on the main thread while it ends.
 * Waits up to 2 s for the worker's end. Never call it inside the allocator. */
void mt_worker_handle_main_exit(void);

/* Tells whether the end of the main thread will be noticed: heap/account.c owns the key destructor
 * for it. While it is not watched the shim starts no thread. */
void mt_worker_note_main_watched(bool watched);
bool mt_worker_is_main_watched(void);

#endif
