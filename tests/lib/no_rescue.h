/* no_rescue.h -- for programs that link the pool without gpu/rescue.c: no other process is asked
 * for memory. Included by one file of a program. */
#ifndef MT_NO_RESCUE_H
#define MT_NO_RESCUE_H

#include "gpu/pool.h"

bool mt_gpu_rescue_is_possible(void)
{
	return false;
}

bool mt_gpu_rescue_next(struct mt_gpu_rescue *rescue, int device, uint64_t bytes)
{
	(void)rescue;
	(void)device;
	(void)bytes;
	return false;
}

void mt_gpu_rescue_end(struct mt_gpu_rescue *rescue)
{
	(void)rescue;
}

#endif
