/* gpu/usage.h -- the peaks behind mt_pool_usage. */
#ifndef MT_GPU_USAGE_H
#define MT_GPU_USAGE_H

#include "gpu/context.h"

/* Something of the context's device has been handed out. The context's lock is held; those of its
 * device's other contexts are read as they stand. */
void mt_usage_note_peaks(struct mt_context *context);

#endif
