/* purge/rounds.h -- counts rounds of the program's work, from 1, and tells which round requests
 * which cleanup. Owns the counter. Any thread and any signal handler may call. Takes no lock. */
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

/* Resets the counter in a forked child. */
void mt_rounds_fork_child(void);

#endif
