/* core/main_status.h -- reads the state and the exit status of an ended main thread from
 * /proc/self/stat. Any thread may call. Takes no lock, owns no state. */
#ifndef MT_CORE_MAIN_STATUS_H
#define MT_CORE_MAIN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the main thread is a zombie and only the calling thread and own_threads more
 * threads are left. stat: text of /proc/self/stat. Pure. */
bool mt_main_status_is_last(const char *stat, uint64_t own_threads);

/* Ends the process with the exit status or the signal of the main thread, where the calling thread
 * and the shim's driver thread are the last ones. Returns where other threads are left. */
void mt_main_status_exit_with(void);

#endif
