/* pressure/rss_limit.h -- MT_RSS_LIMIT_MB is reached, and a cleanup has not helped: who holds what,
 * on the log and in the stats file. */
#ifndef MT_PRESSURE_RSS_LIMIT_H
#define MT_PRESSURE_RSS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* From what the kernel says (rss, anon, file, shmem, swap) and the snapshot says: the shares of the
 * heap, of other anonymous memory, and what to do about the largest. Pure. resident_known: the
 * allocator tells what of its heap is resident; else what is free and cannot be returned counts as
 * other anonymous memory. */
void mt_rss_limit_attribute(struct mt_stats_alarm *alarm, const struct mt_stats_snapshot *figures,
			    bool resident_known);

/* Makes the report. Worker thread only, right after a cleanup. */
void mt_rss_limit_report(uint64_t limit_bytes);

#endif
