/* purge/purge.h -- what the files of purge/ offer each other: the tick, the purges by threads that
 * grow, and rounds. */
#ifndef MT_PURGE_PURGE_H
#define MT_PURGE_PURGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* ---- purge/purge.c: the component ---- */

/* Returns the CLOCK_MONOTONIC of the start of the first worker of this process. Worker thread. */
uint64_t mt_purge_started_ns(void);

/* ---- purge/tick.c: the tick ---- */

/* One tick of the purge policy: reads the process, decides, purges, publishes. Owns the policy's
 * state. Only the worker thread may call. Takes the publish lock. */

/* Starts the module with the worker thread, and makes the files. is_first: the process has had no
 * worker. One that starts again, after a pause, goes on with the figures of the one before. */
void mt_tick_start(bool is_first);

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

/* ---- purge/purge.c: growth ---- */

/* Returns free pages while the heap grows beside them: freed memory of one kind (objects of Python,
 * small blocks) does not serve large blocks, and the next tick may come too late. Owns the size
 * from which growth counts. Any thread, once its block is made and with none of the allocator's
 * locks held. Allocates nothing, opens no file, takes the purge lock. */

/* Sets the cost of purging 1 MiB and of its page faults, in ns, as learned. Worker thread. */
void mt_purge_growth_set_cost(uint64_t ns);

/* Returns the CPU time in ns of these purges since the last call. */
uint64_t mt_purge_growth_take_cost(void);

/* ---- purge/rounds.c: rounds ---- */

/* Counts rounds of the program's work, from 1, and tells which round requests which cleanup; then
 * runs it. Owns the counter. Any thread and any signal handler may call, and no lock is taken,
 * unless a section says otherwise. */

/* Ends a round and returns its number. */
uint64_t mt_rounds_end(void);

/* Returns the number of rounds that have ended. */
uint64_t mt_rounds_count(void);

/* Notes that the thread which ended this round also cleans up for it: the worker then leaves it and
 * those before it out. */
void mt_rounds_note_handled(uint64_t round);

/* Returns whether a round requests a cleanup; *out_level is then its level. gc_step: rounds between
 * two light cleanups, 0: never. A heavy cleanup of the same round replaces a light one. Pure. */
bool mt_rounds_due(uint64_t round, uint64_t gc_step, const struct mt_config *cfg,
		   enum mt_level *out_level);

/* Returns whether a preset cleans up by rounds, and none has ended in 10 minutes. count: rounds so
 * far. uptime_ns: since the component started; UINT64_MAX: the program ends. Pure. */
bool mt_rounds_are_missing(const struct mt_config *cfg, uint64_t count, uint64_t uptime_ns);

/* ---- the end of a round ---- */

/* Ends rounds by timer and signal, and runs the cleanups that rounds request. Owns the timer, the
 * number of rounds handled and the state of MT_GC_ROUNDS=auto. Only the worker thread may call.
 * Takes the publish lock. */

/* Ends a round if MT_ROUND=timer:N has elapsed. now_ns: CLOCK_MONOTONIC. */
void mt_round_end_check_timer(uint64_t now_ns);

/* Handles the cleanup signal: ends a round with MT_ROUND=signal, else runs a heavy cleanup. */
void mt_round_end_handle_signal(void);

/* Runs the cleanup that rounds since the last call request. Every due round is published, up to the
 * last 64 of them; rounds that end together share one cleanup. Does nothing within a second of the
 * last requested cleanup. in_use_bytes: mt_tick_in_use_bytes. */
void mt_round_end_run_cleanup(uint64_t (*in_use_bytes)(void));

/* Returns when to run again, in ns of CLOCK_MONOTONIC: at the timer, or when that second ends while
 * rounds or a signal wait; UINT64_MAX: never. */
uint64_t mt_round_end_next_ns(void);

/* Starts all of it again in a forked child. */
void mt_rounds_fork_child(void);

#endif
