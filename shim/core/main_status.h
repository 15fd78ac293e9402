/* core/main_status.h -- what the kernel says of a main thread that has ended. Any thread; no lock. */
#ifndef MT_CORE_MAIN_STATUS_H
#define MT_CORE_MAIN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether, by this text of /proc/self/stat, the main thread is a zombie, and beside it and the
 * calling thread only own_threads threads are left. Pure. */
bool mt_main_status_is_last(const char *stat, uint64_t own_threads);

/* Ends the calling thread, and so the process, with the status or the signal of the main thread, where
 * it is the last one. Returns where others are left. */
void mt_main_status_exit_with(void);

#endif
