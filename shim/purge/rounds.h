/* purge/rounds.h -- which round asks for which cleanup. Rounds count from 1; every Nth is light,
 * where N may be the adaptive rounds's (adaptive rounds.h), every Mth heavy, and a heavy one stands
 * for the light one of the same round. */
#ifndef MT_PURGE_ROUNDS_H
#define MT_PURGE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* One more round has ended; its number. Any thread, lock-free, async-signal-safe. */
uint64_t mt_rounds_end(void);

/* Rounds that have ended so far. */
uint64_t mt_rounds_count(void);

/* Whether a round asks for a cleanup, and for which. gc_step: rounds between two light ones, 0 for
 * never. Pure. */
bool mt_rounds_due(uint64_t round, uint64_t gc_step, const struct mt_config *cfg,
		   enum mt_level *out_level);

void mt_rounds_fork_child(void);

#endif
