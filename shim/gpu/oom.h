/* gpu/oom.h -- the report of an out-of-memory error of a device. The thread that got the error
 * gathers the facts at once, before anything changes. An error that the program overcomes by itself
 * is only a retry. The worker asks the driver and NVML, prints a line and keeps the report for
 * `mtctl stat PID --oom`, which names the likely cause. A process that ends before that prints the
 * line itself, and waits for the worker to finish one. A process that ends without exit handlers
 * (abort, _exit, a signal) may lose it.
 *
 * Owns the pending errors and one report, under the lock `oom`, held over no call. */
#ifndef MT_GPU_OOM_H
#define MT_GPU_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"
#include "sys/atomic.h"
#include "sys/os.h"

/* For mt_oom_is_pending alone. */
extern _Atomic uint32_t mt_oom_pending_count;

/* Returns whether some thread may still overcome an error. */
static inline bool mt_oom_is_pending(void)
{
	return mt_load_relaxed(&mt_oom_pending_count) != 0;
}

/* The program is about to get CUDA_ERROR_OUT_OF_MEMORY from `function` (a string that stays) for so
 * many bytes. free and total are the driver's own, without what the pool adds. Any thread;
 * allocates nothing. */
void mt_oom_note(const char *function, uint64_t asked_bytes, int device, uint64_t free_bytes,
		 uint64_t total_bytes);

/* The calling thread has allocated so much on the device while mt_oom_is_pending. Any thread. */
void mt_oom_note_success(uint64_t bytes, int device);

/* Returns whether an error of the calling thread is pending. Any thread. */
bool mt_oom_has_failed(void);

/* Finalizes errors whose time is up; at UINT64_MAX, the end of the process, all. Returns when to
 * run again, in ns of CLOCK_MONOTONIC; UINT64_MAX: not. Worker thread, but for the end. */
uint64_t mt_oom_tick(uint64_t now_ns);

/* Returns whether a report waits: the worker publishes the devices first, while a process that ends
 * may take it. */
bool mt_oom_has_report(void);

/* Prints the waiting report. Worker thread, at MT_CONTROL_OOM. at_end: the process ends, on any
 * thread: what other processes hold is not told; a report that the worker is printing is awaited
 * for up to 1 s. */
void mt_oom_finish(bool at_end);

/* An error that the same thread does not overcome within this time is final: between its two tries
 * there may be calls of cuMemFree that wait for all work of the device. */
#define MT_OOM_PATIENCE_NS (5 * MT_NS_PER_S)
#define MT_OOM_PENDING_MAX 8 /* threads; with more, the oldest error is final */

#endif
