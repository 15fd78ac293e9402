/* purge/round_end.h -- what follows from the end of a round: which cleanup is due, and the pace of
 * MT_GC_ROUNDS=auto. Worker thread only. */
#ifndef MT_PURGE_ROUND_END_H
#define MT_PURGE_ROUND_END_H

#include <stdint.h>

/* Ends a round where MT_ROUND=timer:N is due. */
void mt_round_end_check_timer(uint64_t now_ns);

/* The cleanup signal came: ends a round with MT_ROUND=signal, else runs a heavy cleanup. */
void mt_round_end_handle_signal(void);

/* Runs the cleanup that rounds since the last call ask for: every due round leaves a record as far as
 * records are kept, and rounds that fall together share one cleanup. Nothing within a second of the
 * last asked cleanup. */
void mt_round_end_run_cleanup(void);

/* When to come again, in ns of CLOCK_MONOTONIC: the timer, or the pause while rounds wait for it. */
uint64_t mt_round_end_next_ns(void);

void mt_round_end_fork_child(void);

#endif
