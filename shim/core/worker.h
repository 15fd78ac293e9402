/* core/worker.h -- the worker thread: it sleeps on the control file, answers requests of mtctl, and
 * runs the components' ticks. All signals blocked, small stack. */
#ifndef MT_CORE_WORKER_H
#define MT_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts the thread, once; nothing when it runs or is being started. Allocates (pthread_create):
 * never from inside the allocator. False when the thread could not be had; a later call tries
 * again. */
bool mt_worker_start(void);

bool mt_worker_is_running(void);

/* Ends the thread soon, and lets none be started again in this process. True until it has left the
 * kernel's list, too. Any thread but the worker. */
void mt_worker_stop(void);
bool mt_worker_is_alive(void);

/* Whether the thread may change its ids as the caller may. */
bool mt_worker_has_same_credentials(void);

/* Ends the thread for a while and waits for that, 2 s at most: true where it is gone. Then
 * mt_worker_resume, always. */
bool mt_worker_pause(void);
void mt_worker_resume(void);

/* In a forked child: there is no thread, and everything it knew is of the parent. */
void mt_worker_fork_child(void);

#endif
