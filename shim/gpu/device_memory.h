/* gpu/device_memory.h -- how much memory each device has left: measured every 100 ms, estimated in
 * between. Any thread; takes no lock; enters the capture gate around calls to the driver. */
#ifndef MT_GPU_DEVICE_MEMORY_H
#define MT_GPU_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

/* Measures the free memory of the device of a held context, once in MT_DEVICE_MEMORY_MEASURE_NS. */
#define MT_DEVICE_MEMORY_MEASURE_NS 100000000ull
void mt_device_memory_measure(struct mt_context *context, uint64_t now_ns);

/* Correct the estimate between two measurements. */
void mt_device_memory_taken(struct mt_pool_device *device, uint64_t bytes);
void mt_device_memory_freed(struct mt_pool_device *device, uint64_t bytes);

/* Reads the driver's free and total bytes of a device through a context that has allocated there.
 * Returns false where there is none, and while a capture is open. On a thread where the shim may
 * call the driver. */
bool mt_device_memory_read(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* The same; the caller has entered the gate, or is in relaxed capture mode. */
bool mt_device_memory_ask(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

bool mt_device_memory_is_low(struct mt_context *context);

/* Returns whether less than 1/MT_DEVICE_MEMORY_SCARCE of the device is free. An allocation may then
 * need any freed block, so that each gets its fence at once: a fence recorded later would wait for
 * later work. */
#define MT_DEVICE_MEMORY_SCARCE 8
bool mt_device_memory_is_scarce(struct mt_context *context);

/* Returns whether a thread is between mt_shortage_begin and mt_shortage_end on the context's
 * device: blocks freed meanwhile go straight to the driver. */
bool mt_device_memory_has_shortage(struct mt_context *context);

#endif
