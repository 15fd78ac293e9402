/* purge/round_end.h -- ends rounds by timer and signal, and runs the cleanups that rounds request.
 * Owns the timer, the number of rounds handled and the state of MT_GC_ROUNDS=auto. Only the worker
 * thread may call. Takes the publish lock. */
#ifndef MT_PURGE_ROUND_END_H
#define MT_PURGE_ROUND_END_H

#include <stdint.h>

/* Ends a round where MT_ROUND=timer:N has elapsed. now_ns: CLOCK_MONOTONIC. */
void mt_round_end_check_timer(uint64_t now_ns);

/* Handles the cleanup signal: ends a round with MT_ROUND=signal, else runs a heavy cleanup. */
void mt_round_end_handle_signal(void);

/* Runs the cleanup that rounds since the last call request. Every due round is published, up to
 * the last 64 of them; rounds that end together share one cleanup. Does nothing within a
 * second of the last requested cleanup. */
void mt_round_end_run_cleanup(void);

/* Returns when to run again, in ns of CLOCK_MONOTONIC: at the timer, or when that second ends while
 * rounds or a signal wait; UINT64_MAX: never. */
uint64_t mt_round_end_next_ns(void);

/* Resets the module in a forked child. */
void mt_round_end_fork_child(void);

#endif
