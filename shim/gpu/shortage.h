/* gpu/shortage.h -- the driver is out of memory: gives back what the pool holds of the device, step
 * by step, while the caller tries its call again. Any thread, no lock held; between begin and end
 * the thread is not cancelled. */
#ifndef MT_GPU_SHORTAGE_H
#define MT_GPU_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>

/* A call of the driver's that allocates met CUDA_ERROR_OUT_OF_MEMORY, so the driver has let the
 * thread allocate here:
 *  if (result == MT_CU_OUT_OF_MEMORY && mt_shortage_begin(&shortage, device, bytes)) {
 *   while (result == MT_CU_OUT_OF_MEMORY && mt_shortage_next(&shortage))
 *    result = the same call again;
 *   mt_shortage_end(&shortage);
 *  }
 * From begin to end nothing is cached on the device. device -1: the current context's, all where
 * none is current. bytes: 0 where unknown. begin: false, and no end follows, where nothing can be
 * made room of: no pool, or more bytes than the device has. Counts a retry. next: gives back first
 * what is idle, then what its own context is done with, then waits (10 s at most) for what is
 * pending, then as long as other threads give back; false: another try is useless. Any thread;
 * between the two it is not cancelled. */
struct mt_shortage {
	int device;
	int cancel;
	unsigned step;
	uint64_t freed, start_ns, bytes;
};
bool mt_shortage_begin(struct mt_shortage *shortage, int device, uint64_t bytes);
bool mt_shortage_next(struct mt_shortage *shortage);
void mt_shortage_end(const struct mt_shortage *shortage);

#endif
