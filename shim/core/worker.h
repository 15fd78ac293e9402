/* core/worker.h -- the one thread of the shim: it wakes on the bell or on its tick, looks, decides (policy), acts
 * (actions), and writes the stats file. All signals blocked, small stack. */
#ifndef MT_REAPER_H
#define MT_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts the thread, once; nothing when it runs or is being started. Allocates (pthread_create): never from inside the
 * allocator. False when the thread could not be had; a later call tries again. */
bool mt_reaper_start(void);

bool mt_reaper_runs(void);

/* The heap has grown: wakes a reaper whose tick is stretched. Any thread. */
void mt_reaper_note_growth(void);

/* Ends the thread soon, and lets none be started again in this process. True until it has left the kernel's list, too. Any
 * thread but the reaper. */
void mt_reaper_leave(void);
bool mt_reaper_is_leaving(void);

/* Whether the thread may change its ids as the caller may. */
bool mt_reaper_has_same_rights(void);

/* Ends the thread for a while and waits for that, 2 s at most: true where it is gone. Then mt_reaper_come_back, always. */
bool mt_reaper_step_aside(void);
void mt_reaper_come_back(void);

/* In a forked child: there is no thread, and everything it knew is of the parent. */
void mt_reaper_fork_child(void);

#endif
