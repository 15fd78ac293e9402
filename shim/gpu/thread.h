/* gpu/thread.h -- the driver thread, which makes the worker's calls to the driver. The worker has
 * an empty descriptor table of its own, while the driver's calls are ioctls on descriptors in the
 * program's table. So a thread of the program starts this one; it shares the program's table and
 * opens nothing. It runs one job at a time, in relaxed capture mode: its calls affect no capture.
 */
#ifndef MT_GPU_THREAD_H
#define MT_GPU_THREAD_H

#include <stdbool.h>

/* Starts the thread unless it runs. On a thread of the program. Returns false if it could not be
 * started: a later call tries again. */
bool mt_gpu_thread_start(void);
bool mt_gpu_thread_runs(void);

/* Has the thread run a job and waits for it. Returns false if there is no thread, the job has
 * not ended within 5 s (it still may), or an earlier one still runs. So the job's data must be
 * static, and be read only after true. Worker thread. */
bool mt_gpu_thread_run(void (*job)(void));

/* At the end of the process: no further job begins; waits up to 1 s for one in flight. Returns
 * false if it still runs: the driver takes itself down then, whatever that does to the thread.
 */
bool mt_gpu_thread_stop(void);

void mt_gpu_thread_fork_child(void);

#endif
