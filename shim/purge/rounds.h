/* purge/rounds.h -- counts rounds of the program's work, from 1, and tells which round requests
 * which cleanup; then runs it. Owns the counter. Any thread and any signal handler may call, and no
 * lock is taken, unless a section says otherwise. */
#ifndef MT_PURGE_ROUNDS_H
#define MT_PURGE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* Ends a round and returns its number. */
uint64_t mt_rounds_end(void);

/* Returns the number of rounds that have ended. */
uint64_t mt_rounds_count(void);

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
