/* gpu/device_memory.h -- how much memory the devices have left, as far as the pool cares, and what
 * it does when there is none. No lock. */
#ifndef MT_GPU_DEVICE_MEMORY_H
#define MT_GPU_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

/* Asks the driver how much is free on the device of the held context, at most every
 * MT_DEVICE_MEMORY_MEASURE_NS. Current or pushed: the context. */
#define MT_DEVICE_MEMORY_MEASURE_NS 100000000ull
void mt_device_memory_measure(struct mt_context *context, uint64_t now_ns);

/* Between two measures: what we know to have been taken or given back. */
void mt_device_memory_taken(struct mt_pool_device *device, uint64_t bytes);
void mt_device_memory_freed(struct mt_pool_device *device, uint64_t bytes);

/* The driver's own free and total bytes of a device, asked through a context that has allocated
 * here; false where there is none, and while a capture is open. On a thread as above. */
bool mt_device_memory_read(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* The same with the gate entered by the caller, or in relaxed capture mode. */
bool mt_device_memory_ask(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

bool mt_device_memory_is_low(struct mt_context *context);

/* Less than 1/MT_DEVICE_MEMORY_SCARCE of the device is free. An allocation may then need any freed
 * block, so each gets its fence at the free: a fence recorded later would wait for later work. */
#define MT_DEVICE_MEMORY_SCARCE 8
bool mt_device_memory_is_scarce(struct mt_context *context);

/* A thread is between mt_shortage_begin and mt_shortage_end on the context's device: what is freed
 * meanwhile goes straight to the driver. */
bool mt_device_memory_has_shortage(struct mt_context *context);

#endif
