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

/* Ends the thread for good and waits for that, without a limit. For the main thread that ends: libc
 * has its last thread call exit, which flushes stdout, and the worker has no descriptors. */
void mt_worker_end(void);

/* Resets the module in a forked child, where the thread does not exist. */
void mt_worker_fork_child(void);

#endif
