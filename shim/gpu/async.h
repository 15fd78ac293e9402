/* gpu/async.h -- a free that does not wait (MT_CUDA_FREE=async). The block stays pending until a
 * fence is done. Blocks freed close together share one fence: here is decided when it is recorded.
 * And what is pending has a cap. Nothing else in the pool needs this file. */
#ifndef MT_GPU_ASYNC_H
#define MT_GPU_ASYNC_H

#include "gpu/context.h"

/* After a block of so many bytes was added to the open group: closes the group if it is due, and
 * gives back what is overdue or above the cap. Waits up to 100 ms for the context's oldest fences
 * while another block of this size would pass the cap. The context's lock is held on entry, not on
 * return. */
void mt_async_free(struct mt_context *context, uint64_t bytes);

#endif
