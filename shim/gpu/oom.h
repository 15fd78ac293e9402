/* gpu/oom.h -- the report of an out-of-memory error of a device: facts gathered at once in the
 * thread that met it, before anything changes. An error that the program overcomes by itself is
 * none (gpu/oom_pending.h): it counts as a retry. What takes longer (other processes on the device,
 * by NVML) is asked by the worker, which prints the report once and keeps it for `mtctl stat PID
 * --oom`. A program that ends before that prints it at its end, and one that ends meanwhile waits
 * for the last line. One that ends without exit handlers (abort, _exit, a signal) may do so before
 * the report. */
#ifndef MT_GPU_OOM_H
#define MT_GPU_OOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For mt_oom_is_pending alone. */
extern _Atomic uint32_t mt_oom_pending_count;

/* Whether some thread may be about to overcome an error. */
static inline bool mt_oom_is_pending(void)
{
	return atomic_load_explicit(&mt_oom_pending_count, memory_order_relaxed) != 0;
}

/* The program is about to get CUDA_ERROR_OUT_OF_MEMORY from `function` (a string that stays) for so
 * many bytes. free and total are the driver's own, without what the pool adds. Any thread; takes no
 * lock over a call, allocates nothing. */
void mt_oom_note(const char *function, uint64_t asked_bytes, int device, uint64_t free_bytes,
		 uint64_t total_bytes);

/* The calling thread has allocated so much on the device, while mt_oom_is_pending. Any thread, as
 * above. */
void mt_oom_note_success(uint64_t bytes, int device);

/* Errors whose time is up are reported. When to come again, in ns of CLOCK_MONOTONIC; UINT64_MAX:
 * not. The worker alone. */
uint64_t mt_oom_tick(uint64_t now_ns);

/* The worker's turn, at MT_CONTROL_OOM. at_end: the process ends, nobody is asked any more; where
 * the worker is printing already it is waited for, a second at most. */
void mt_oom_finish(bool at_end);

void mt_oom_fork_child(void);

#endif
