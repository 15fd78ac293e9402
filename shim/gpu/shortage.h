/* gpu/shortage.h -- the driver is out of memory: releases what the pool holds of the device, step
 * by step, while the caller tries its call again. Any thread, no lock held. From begin to end the
 * thread is not cancelled, and nothing is cached on the device. */
#ifndef MT_GPU_SHORTAGE_H
#define MT_GPU_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/rescue.h"

/* After a call of the driver that allocates returned CUDA_ERROR_OUT_OF_MEMORY:
 *
 *  if (result == MT_CU_OUT_OF_MEMORY && mt_shortage_begin(&shortage, device, bytes)) {
 *   while (result == MT_CU_OUT_OF_MEMORY && mt_shortage_next(&shortage))
 *    result = the same call again;
 *   mt_shortage_end(&shortage);
 *  }
 *
 * begin: device -1 is that of the current context, or all devices where none is current; bytes is
 * the size asked for, 0 where unknown. Counts a retry. Returns false, and no end follows, where
 * there is neither a pool nor a process to ask, or the device is smaller than the request.
 *
 * next: releases idle blocks first, then those with which their own context is done, then waits up
 * to 10 s for pending ones, then goes on while other threads release, then asks other processes
 * (gpu/rescue.h). Returns false where another try is useless. */
struct mt_shortage {
	int device;
	int cancel;
	unsigned step;
	bool is_last; /* nobody gives more: one more try */
	uint64_t released_count, start_ns, bytes;
	struct mt_gpu_rescue rescue;
};
bool mt_shortage_begin(struct mt_shortage *shortage, int device, uint64_t bytes);
bool mt_shortage_next(struct mt_shortage *shortage);
void mt_shortage_end(struct mt_shortage *shortage);

#endif
