/* pressure/pressure.h -- of the component: the report that MT_RSS_LIMIT_MB is still reached after a
 * cleanup, with the memory by owner, in the log and in the stats file. Owns no state. */
#ifndef MT_PRESSURE_PRESSURE_H
#define MT_PRESSURE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* Fills the heap's shares, the other anonymous memory, and the advice. limit_report: rss, anon,
 * file, shmem and swap bytes are set. resident_known: the allocator tells how much of the heap is
 * resident; else free memory that cannot be returned counts as other anonymous memory. Pure. */
void mt_pressure_rss_limit_attribute(struct mt_stats_limit_report *limit_report,
				     const struct mt_stats_snapshot *figures, bool resident_known);

#endif
