/* core/init.h -- the beginning, fork and end of the shim in a process: the order in which the
 * components' hooks run. */
#ifndef MT_CORE_INIT_H
#define MT_CORE_INIT_H

#include <stdbool.h>

#include "core/state.h"

/* The first call of the process: reads the settings and has heap/ choose an allocator. Nothing where
 * libc has not set environ yet, or after the first time. Any thread; calls that come from inside it
 * are served by the bootstrap arena. Keeps errno. */
void mt_init_start_heap(void);

/* The same where the bootstrap arena cannot wait any more: the environment is read from where the
 * kernel has put it. */
void mt_init_force_start_heap(void);

/* Whether the embedded jemalloc serves malloc; starts the heap if that is not known yet. False while
 * it starts. */
bool mt_init_uses_jemalloc(void);

/* Starts the worker thread where a later end of the main thread will be noticed: a thread of ours that
 * does not hear of it would keep the process alive. Never from inside the allocator. True: it runs. */
bool mt_init_start_worker(void);

#endif
