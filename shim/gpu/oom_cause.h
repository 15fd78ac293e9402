/* gpu/oom_cause.h -- why a device was out of memory, and what to do: from the facts alone. Pure. */
#ifndef MT_GPU_OOM_CAUSE_H
#define MT_GPU_OOM_CAUSE_H

#include <stdint.h>

#include "core/stats_layout.h"

/* Fills cause and advice from the other figures. One request larger than the device: that, whatever
 * else is there. More than frag_thousandths (MT_FRAG_GB) idle in a cache: fragmentation or cache.
 * Else 80 % of the device allocated by this process: live tensors. Else other processes, where they
 * hold at least what was missing: by NVML, or without it by what is neither free nor ours. Else
 * live tensors, where those are at least what was missing. unknown: neither, or the figures are
 * missing. */
void mt_oom_judge(struct mt_stats_oom *oom, uint64_t frag_thousandths);

#endif
