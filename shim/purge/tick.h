/* purge/tick.h -- one tick of the purge policy: reads the process, decides, purges, publishes.
 * Owns the policy's state. Only the worker thread may call. Takes
 * the publish lock. */
#ifndef MT_PURGE_TICK_H
#define MT_PURGE_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* Starts the module with the worker thread, and makes the files. */
void mt_tick_start(void);

/* Runs a tick. grown: the heap has just grown. Returns the ns until the next tick. */
uint64_t mt_tick_run(bool grown);

/* Publishes fresh figures, without a decision. */
void mt_tick_refresh(void);

/* Returns the bytes that the process uses: RSS minus the unused part of the heap, which is dirty
 * pages, thread caches and holes. For round ends: RSS would mostly tell whether a purge has just
 * run. */
uint64_t mt_tick_in_use_bytes(void);

/* Tells the policy about a cleanup that it did not decide. charged: its cost counts against the
 * budget. */
void mt_tick_note_cleanup(const struct mt_stats_cleanup *cleanup, bool charged);

/* Resets the peak of live bytes. */
void mt_tick_reset_peak(void);

#endif
