/* gpu/gpu.h -- the device side of the worker: starts the pool with the settings, keeps it ticking,
 * empties it in heavy cleanups, and tells the stats file. Driver calls are made on the thread of
 * gpu/thread.h, or, here, on the calling thread of the program. */
#ifndef MT_GPU_H
#define MT_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"
#include "core/stats_layout.h"

/* Pool and all threads run: gpu/wake.c has nothing left to start. false again in a forked child.
 * release/acquire with what was started. */
extern _Atomic bool mt_gpu_is_awake;

/* Starts pool and thread; on a thread of the program, never from inside dlsym. Safe to call again
 * and from several threads. False as long as there is no driver, and for ever where MT_CUDA=off. */
bool mt_gpu_start(void);

/* It has started, here and not in our parent. */
bool mt_gpu_is_used(void);
bool mt_gpu_capturing(void);

/* The calling thread, of the program's own, has a context current. */
bool mt_gpu_has_context(void);

/* What the devices in use have in use, by everybody: total - free. 0 unknown. */
uint64_t mt_gpu_used(bool here);

/* Page-locked host memory that this process has of CUDA, by our count. Any thread; the driver is
 * not asked. */
uint64_t mt_gpu_pinned_bytes(void);

/* Device memory that the program holds, whatever the kind; without asking the driver. Worker thread
 * only. */
uint64_t mt_gpu_live_bytes(void);

/* Everything idle goes back: our pool, the driver's own pools. MT_GPU_CAPTURING: not now, but by
 * mt_gpu_tick once no capture is open any more. */
enum mt_gpu_state mt_gpu_flush(bool here);

/* The pool's own housekeeping, if it is time. When to come again, in ns of CLOCK_MONOTONIC. Worker
 * thread only. */
uint64_t mt_gpu_tick(uint64_t now_ns);

/* Settings have changed. */
void mt_gpu_configure(void);
void mt_gpu_reset_peak(void);

/* The figures go into the snapshot and the table of devices; full: the driver is asked too. Takes
 * the publish lock. Worker thread only. */
void mt_gpu_publish(bool full);

/* The table as it was published last, and how many rows of it: 0 where no context exists. Worker
 * thread only. */
uint32_t mt_gpu_devices(const struct mt_stats_device **out);

/* Writes the blocks of the pool beside the stats file; NOT_AVAILABLE where CUDA is not used, or
 * MT_CUDA=off. Worker thread only. */
enum mt_err mt_gpu_snapshot(void);

/* The process ends: our thread makes no further call of the driver's, and of what it gives back to
 * it no more than the block in hand. Before the driver takes itself down. */
void mt_gpu_stop(void);

/* See oom.h. */
void mt_gpu_finish_oom(bool at_end);

void mt_gpu_fork_child(void);

#endif
