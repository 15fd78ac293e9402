/* purge/purge_internal.h -- what purge/ and its tests alone use: the pure parts of purge/tick.c and
 * purge/rounds.c. Only the worker thread may call. Takes no lock. */
#ifndef MT_PURGE_PURGE_INTERNAL_H
#define MT_PURGE_PURGE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "purge/policy.h"

/* ---- the interval between samples ---- */

/* Decides when to ask the allocator for its dirty bytes. Pure: owns no state but struct
 * mt_last_sample.
 *
 * A sample is due when the upper bound (anonymous resident minus live bytes) reaches the purge
 * threshold. A fragmented heap always has a high bound, and each sample gives the same result. So a
 * result below the threshold stays valid for up to two seconds, by the cost of a sample, unless the
 * bound rises (without this `make bench-tick` fails for 500 MB of fragments), and for as long as
 * the process does not change at all (the same for a process at rest with 512 arenas). A result
 * above the threshold is renewed at every tick, since the idle window must see the program reuse
 * its pages. */

/* The last sample, and the process at that time. */
struct mt_last_sample {
	uint64_t at_ns;           /* CLOCK_MONOTONIC; 0: none yet */
	uint64_t cost_ns;         /* CPU time of the sample */
	uint64_t allocated_bytes; /* in total, at that time */
	uint64_t freed_bytes;
	uint64_t bound_bytes; /* anonymous resident minus live bytes */
	uint64_t dirty_bytes; /* the result */
};

enum mt_sampling_interval {
	MT_SAMPLING_INTERVAL_SKIP,  /* nothing to purge is likely: dirty bytes stay unknown */
	MT_SAMPLING_INTERVAL_REUSE, /* the last result is still valid */
	MT_SAMPLING_INTERVAL_READ   /* ask the allocator */
};

/* Decides for this tick. is_counted: the shim counts allocated and live bytes itself; else they are
 * as old as the last sample. */
enum mt_sampling_interval mt_tick_interval_decide(const struct mt_last_sample *last,
						  const struct mt_policy *policy,
						  const struct mt_snapshot *now,
						  const struct mt_config *cfg, bool is_counted);

/* Stores a new sample. The caller sets dirty_bytes and cost_ns. */
void mt_tick_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now);

/* ---- rounds of MT_GC_ROUNDS=auto ---- */

/* MT_GC_ROUNDS=auto: chooses a light cleanup every 1, 2 or 5 rounds. Pure: owns no state but struct
 * mt_adaptive_rounds.
 *
 * The step rises when the bytes in use at round ends stay flat over the window: highest minus
 * lowest is up to max(2 %, 8 MB). The window is 4 round ends at first. It doubles, up to 64, each
 * time a rise turns out to be wrong, so that even a slow leak keeps the first step. After 64 round
 * ends on the last step it is 4 again.
 *
 * The step falls to the first one under memory pressure, or when a round end exceeds the lowest one
 * since the first step by more than that tolerance. So both growth and garbage that accumulates
 * between cleanups count. */

#define MT_ADAPTIVE_ROUNDS_LONGEST 64 /* round ends */

struct mt_adaptive_rounds {
	uint64_t ends[MT_ADAPTIVE_ROUNDS_LONGEST]; /* circular buffer of bytes in use */
	uint64_t count;                            /* of round ends, in total */
	/* the lowest round end since the first step, including its last window */
	uint64_t base_bytes;
	uint32_t step_index;
	uint32_t step_rounds; /* round ends with this step */
	uint32_t window;      /* round ends that must be flat */
};

/* Sets the first step. */
void mt_rounds_auto_start(struct mt_adaptive_rounds *adaptive);

/* Adds a round end. bytes: in use, always measured before that round's cleanup. pressure: memory is
 * short. */
void mt_rounds_auto_add(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure);

/* Returns the rounds between two light cleanups: 1, 2 or 5. */
uint64_t mt_rounds_auto_step(const struct mt_adaptive_rounds *adaptive);

#endif
