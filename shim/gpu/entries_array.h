/* gpu/entries_array.h -- how large an array is, by its description: the driver does not tell before
 * 12.x, and rounds by rules of its own. A lower bound, then. Pure. */
#ifndef MT_GPU_ENTRIES_ARRAY_H
#define MT_GPU_ENTRIES_ARRAY_H

#include <stdint.h>

#include "gpu/driver_abi.h"

/* 0 for a format that we do not know, and for an array that has no memory of its own (sparse,
 * deferred mapping). */
uint64_t mt_cuda_array_bytes(const struct mt_cu_array_descriptor *descriptor);

/* The sum of its levels, each half as wide, high and deep as the one before; layers stay. */
uint64_t mt_cuda_array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor,
			       unsigned int levels);

#endif
