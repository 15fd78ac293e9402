/* core/init.h -- starts, forks and ends the shim in a process: calls the components' hooks in
 * order. Owns the pthread_atfork handlers, the constructor, the destructor, and the wrappers of
 * _exit, _Exit and quick_exit, which signal handlers and vfork children may call too. Any thread
 * may call. Takes no lock of its own. Keeps errno. */
#ifndef MT_CORE_INIT_H
#define MT_CORE_INIT_H

#include <stdbool.h>

#include "core/state.h"

/* Reads the settings and has heap/ choose an allocator, once. Does nothing while libc has not set
 * environ, and on later calls. The next allocator in line serves allocations that it makes itself.
 */
void mt_init_start_heap(void);

/* Starts the heap if that is not done, and returns whether the embedded jemalloc serves malloc,
 * or will once the process has grown. False while the heap starts. */
bool mt_init_uses_jemalloc(void);

/* Starts the worker thread, unless the end of the main thread would go unnoticed: the worker would
 * then keep the process alive. Returns whether it runs. Never call it inside the allocator. */
bool mt_init_start_worker(void);

#endif
