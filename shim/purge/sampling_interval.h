/* purge/sampling_interval.h -- decides when to ask the allocator for its dirty bytes. Pure: owns no
 * state but struct mt_last_sample. Only the worker thread may call. Takes no lock.
 *
 * A sample is due when the upper bound (anonymous resident minus live bytes) reaches the purge
 * threshold. A fragmented heap always has a high bound, and each sample gives the same result. So a
 * result below the threshold stays valid for up to two seconds, by the cost of a sample, unless the
 * bound rises (without this `make bench-tick` fails for 500 MB of fragments), and for as long as
 * the process does not change at all (the same for a process at rest with 512 arenas). A result
 * above the threshold is renewed at every tick, since the idle window must see the program reuse
 * its pages. */
#ifndef MT_PURGE_SAMPLING_INTERVAL_H
#define MT_PURGE_SAMPLING_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "purge/policy.h"

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
enum mt_sampling_interval mt_sampling_interval_decide(const struct mt_last_sample *last,
						      const struct mt_policy *policy,
						      const struct mt_snapshot *now,
						      const struct mt_config *cfg, bool is_counted);

/* Returns whether a sample is due because of its age: one second, or two if it is expensive, and
 * only if memory was freed. The bound is too low if live memory is untouched or swapped out, and
 * outdated if the shim does not count. */
bool mt_sampling_interval_is_overdue(const struct mt_last_sample *last,
				     const struct mt_snapshot *now, bool is_counted);

/* Stores a new sample. The caller sets dirty_bytes and cost_ns. */
void mt_sampling_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now);

#endif
