/* purge/adaptive_rounds.h -- MT_GC_ROUNDS=auto: a light cleanup every 1, 2 or 5 rounds. Pure.
 * Worker thread only.
 *
 * It climbs a rung when what the process keeps at round ends has been flat for as many of them as
 * it has patience for: highest less lowest within max(2 %, 8 MB). Not a slope: that of a few round
 * ends says less than their span, and the patience makes the span a slope. It is 4 round ends at
 * first and doubles, up to 64, each time that a climb turns out to have been wrong, so that a leak
 * of 200 kB a round ends on the first rung. After 64 on the last rung it is 4 again.
 *
 * It is back on the first at once under pressure, or when a round end lies by more than that above
 * the lowest since it left the first rung: garbage that piles up between cleanups counts as well as
 * growth. */
#ifndef MT_PURGE_ADAPTIVE_ROUNDS_H
#define MT_PURGE_ADAPTIVE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#define MT_ADAPTIVE_ROUNDS_LONGEST 64 /* round ends */

struct mt_adaptive_rounds {
	uint64_t ends[MT_ADAPTIVE_ROUNDS_LONGEST]; /* a ring of bytes */
	uint64_t count;                            /* of round ends, ever */
	/* the lowest since it left the first rung, its last ones there included */
	uint64_t base_bytes;
	uint32_t step_index;
	uint32_t step_rounds; /* round ends on this rung */
	uint32_t window;
};

void mt_adaptive_rounds_start(struct mt_adaptive_rounds *adaptive);

/* A round has ended, with so many bytes kept; always read at the same moment, before that round's
 * cleanup. */
void mt_adaptive_rounds_add(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure);

/* Rounds between two light cleanups. */
uint64_t mt_adaptive_rounds_step(const struct mt_adaptive_rounds *adaptive);

#endif
