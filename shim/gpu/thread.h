/* gpu/thread.h -- the thread that makes our calls into the driver. Not the worker itself: that one
 * has a table of descriptors of its own, and empty, while the driver's calls are ioctls on
 * descriptors that it has opened in the program's. So this thread is started by a thread of the
 * program, shares its table, and opens nothing. It runs one job at a time for the worker, in
 * relaxed capture mode: its calls then count for no capture of the program's threads. */
#ifndef MT_GPU_THREAD_H
#define MT_GPU_THREAD_H

#include <stdbool.h>

/* Once; nothing when it runs. Only on a thread of the program. False when the thread could not be
 * had: a later call tries again. */
bool mt_gpu_thread_start(void);
bool mt_gpu_thread_runs(void);

/* Has the thread run a job and waits for it. False: there is no thread, the job has not ended
 * within 5 s (it still may), or such a one still runs. The job's data must therefore be static, and
 * be read only after true. For the worker alone. */
bool mt_gpu_thread_run(void (*job)(void));

/* No job is begun any more; waits at most 1 s for one in flight. False: it still is. For the end of
 * the process: the driver takes itself down then, and nothing says what it does to a thread that is
 * inside. */
bool mt_gpu_thread_stop(void);

void mt_gpu_thread_fork_child(void);

#endif
