/* gpu/oom_cause.h -- why a device was out of memory, and what to do. Pure: any thread, no lock. */
#ifndef MT_GPU_OOM_CAUSE_H
#define MT_GPU_OOM_CAUSE_H

#include <stdint.h>

#include "core/stats_layout.h"

/* Sets cause and advice by the other figures, in this order. The request is larger than the device.
 * More than frag_thousandths (MT_FRAG_GB) idle in a cache: fragmentation or cache. 80 % of the
 * device allocated by this process: live tensors. Other processes hold as much as was missing or
 * more, by NVML, or without it by what is neither free nor ours. Live tensors hold as much as was
 * missing or more. Else, or where figures are missing: unknown. */
void mt_oom_judge(struct mt_stats_oom *oom, uint64_t frag_thousandths);

#endif
