/* gpu/pool_conf.h -- MT_CUDA_CONF: the pool's settings in the syntax of PYTORCH_CUDA_ALLOC_CONF,
 * "name:value,name:value" (https://docs.pytorch.org/docs/stable/notes/cuda.html). Understood:
 * roundup_power2_divisions (a power of two, or a list of them by size as [256:1,512:2,>:4]: 1 under
 * 256 MB, 2 under 512, 4 above), max_split_size_mb (above 20), garbage_collection_threshold
 * (between 0 and 1). PyTorch's other names are known and have no meaning for a pool that never
 * splits a block. */
#ifndef MT_GPU_POOL_CONF_H
#define MT_GPU_POOL_CONF_H

#include "gpu/pool.h"

/* Sets the three fields that the text names and leaves the others. Each name without a meaning,
 * unknown name and malformed value is one call of complain with a line that is safe to print,
 * without newline; the field then stands as it was. */
void mt_pool_conf_parse(const char *text, struct mt_pool_settings *settings,
			void (*complain)(const char *line));

#endif
