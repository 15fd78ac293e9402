/* python/framework.h -- MT_FRAMEWORK_DECAY_MS: releases what PyTorch's own device cache has held
 * unused for that time. Also empties all frameworks' device caches for another process that is out
 * of device memory. Reads and empties caches in pending calls of Python, without waiting for
 * them. Does nothing if several processes train together (WORLD_SIZE > 1): one process that
 * flushes makes all others wait. Owns the pending call and the last figures. Only the worker thread
 * may call. Takes no lock of its own. */
#ifndef MT_PYTHON_FRAMEWORK_H
#define MT_PYTHON_FRAMEWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/services.h"

/* Queues a reading if one is due. Returns when to call again, in ns of CLOCK_MONOTONIC;
 * UINT64_MAX: never. */
uint64_t mt_framework_tick(uint64_t now_ns);

/* Returns the bytes that PyTorch's cache held unused on a device at the last reading. 0: the device
 * is unknown, or the reading is older than 10 s. */
uint64_t mt_framework_idle_bytes(int device);

/* Queues a call that empties the frameworks' device caches, unless a call is queued. Returns
 * whether such a call is queued. */
bool mt_framework_empty(void);

/* Returns the state of that call. *out_frameworks: whose caches it has emptied, bits of enum
 * mt_framework_bit; written for MT_CACHES_EMPTIED. */
enum mt_caches_state mt_framework_emptied(uint32_t *out_frameworks);

/* Resets the module in a forked child. */
void mt_framework_fork_child(void);

#endif
