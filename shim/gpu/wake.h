/* gpu/wake.h -- the first call of a wrapped function of the driver. */
#ifndef MT_GPU_WAKE_H
#define MT_GPU_WAKE_H

#include <stdbool.h>

/* Starts the pool, the thread that calls the driver, and the worker. True: the wrappers are to do
 * their work. False (MT_CUDA=off, the shim is off, a process that runs on another's memory): the
 * call is handed on as it is. Cheap after the first time. Keeps errno. A thread of the program;
 * never from inside dlsym. */
bool mt_gpu_wake(void);

#endif
