/* gpu/rescue.h -- MT_CUDA_RESCUE: a process that is out of device memory asks the other processes
 * of its user for what they do not use on that device (core/control_file.h), and gives when it is
 * asked.
 *
 * One thread of a process asks at a time, for up to MT_RESCUE_NS; the others wait for it as long.
 * If nobody has given anything, the process asks again after 0.1 s at the earliest, and after
 * ten times what it has waited.
 * The asking thread makes no call to the driver while it waits, takes no lock and allocates
 * nothing. The worker replies, so that two processes may ask each other.
 *
 * Given are the pool's idle blocks and the driver's own pools at once, and the device caches of
 * Python's frameworks when its main thread comes to it. A process under a tool that watches the
 * CUDA calls neither asks nor gives, nor does a client of the MPS server. Nothing is given during a
 * capture. */
#ifndef MT_GPU_RESCUE_H
#define MT_GPU_RESCUE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/pool.h"

/* ---- a thread that is out of memory, with no lock held, not cancellable ---- */

/* Returns whether other processes may be asked now. */
bool mt_gpu_rescue_is_possible(void);

/* Asks at the first call. Waits until a process has given something more: true, try again. Returns
 * false if nothing more will come. bytes: the size asked for; 0: unknown. device: may be
 * MT_ANY_DEVICE. */
bool mt_gpu_rescue_next(struct mt_gpu_rescue *rescue, int device, uint64_t bytes);

/* Must follow the last call. */
void mt_gpu_rescue_end(struct mt_gpu_rescue *rescue);

/* ---- the worker ---- */

void mt_gpu_rescue_publish(void); /* worker thread */

/* Replies to other processes. Returns when to run again, in ns of CLOCK_MONOTONIC; UINT64_MAX: at
 * any turn. Worker thread. */
uint64_t mt_gpu_rescue_tick(uint64_t now_ns);

void mt_gpu_rescue_fork_child(void);

#endif
