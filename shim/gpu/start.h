/* gpu/start.h -- the start of the device pool: at the first call of a wrapped function of the
 * driver. Owns the state of the start; takes no lock, and holds none over a call to the loader or
 * driver. */
#ifndef MT_GPU_START_H
#define MT_GPU_START_H

#include <stdbool.h>

/* Starts the pool, the thread that calls the driver, and the worker. Returns whether the wrappers
 * are to do their work; false (MT_CUDA=off, the shim is off, no driver yet, a process that runs on
 * another's memory): the call is handed on as it is. Cheap after the first time. Keeps errno. A
 * thread of the program; never from inside dlsym. */
bool mt_gpu_start(void);

/* Returns whether the pool has started, here and not only in the parent. Any thread. */
bool mt_gpu_is_used(void);

/* In a forked child the driver cannot be used; a state that was off stays it. Returns whether the
 * parent had begun to start the pool. */
bool mt_gpu_start_fork_child(void);

/* The settings of the pool as they are configured now. Any thread. */
struct mt_pool_settings;
void mt_gpu_fill_settings(struct mt_pool_settings *out);

#endif
