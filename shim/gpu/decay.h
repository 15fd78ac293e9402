/* gpu/decay.h -- what the worker gives back to the driver: decay, caps, low memory, cleanups. On
 * the driver thread (gpu/thread.h) or a thread of the program, in relaxed capture mode, no lock
 * held. Does nothing while a capture is open. */
#ifndef MT_GPU_DECAY_H
#define MT_GPU_DECAY_H

#include <stdbool.h>
#include <stdint.h>

/* Releases up to `limit` blocks that are due by decay, caps or low memory, oldest first. Returns
 * the bytes. *out_next_ms: when to run again; UINT64_MAX: nothing is cached. */
uint64_t mt_pool_tick(uint64_t now_ns, uint32_t limit, uint64_t *out_next_ms);

/* Releases everything that is ready, on the device (MT_ANY_DEVICE: on all) or on all; returns the
 * bytes. */
uint64_t mt_pool_trim_device(int device);
uint64_t mt_pool_trim(void);

/* While paused, the two functions above release no further block and return after the current one.
 * Any thread. The program's own calls go on. */
void mt_pool_pause_release(bool held);

#endif
