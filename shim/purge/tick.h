/* purge/tick.h -- one look at the process, and what follows from it. Worker thread only. */
#ifndef MT_PURGE_TICK_H
#define MT_PURGE_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* The thread has just started: measures what faults cost, makes the files. */
void mt_tick_start(void);

/* Sense, policy, perhaps a purge, stats. Answers ns until the next tick. */
uint64_t mt_tick_run(bool grown);

/* Fresh figures in the snapshot, without deciding anything. */
void mt_tick_refresh(void);

/* What the process keeps: RSS less what lies unused in the heap, be it dirty pages, caches of
 * threads or holes, which are the purge's business. For round ends, at which RSS itself says mostly
 * whether a purge has just been. */
uint64_t mt_tick_in_use_bytes(void);

/* A cleanup that was not the policy's own: its purge is told to the governor. */
void mt_tick_note_cleanup(const struct mt_stats_cleanup *record, bool charged);

void mt_tick_reset_peak(void);

#endif
