/* purge/sampling_interval.h -- when to ask the allocator what is dirty. Pure, as policy.h is.
 *
 * The policy says whether there may be something (resident minus live bytes pass the gate, say). In
 * a heap that is fragmented for good they always do, and the answer is always the same: so an
 * answer that found less than the gate stands for a while that goes by what asking costs, two
 * seconds at most, unless the bound has risen since; and for as long as nobody has allocated or
 * freed. An answer that passes the gate is asked for again at every tick: a window is being filled,
 * and it must not miss that the program takes the pages back. */
#ifndef MT_PURGE_SAMPLING_INTERVAL_H
#define MT_PURGE_SAMPLING_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "purge/policy.h"

/* The last answer, and what the process looked like then. */
struct mt_last_sample {
	uint64_t at_ns;           /* 0: never */
	uint64_t cost_ns;         /* CPU time of asking */
	uint64_t allocated_bytes; /* ever, at that time */
	uint64_t freed_bytes;
	uint64_t bound_bytes; /* anon minus live bytes */
	uint64_t dirty_bytes; /* what came of it */
};

enum mt_sampling_interval {
	/* nothing says that there is anything: what is dirty stays unknown */
	MT_SAMPLING_INTERVAL_SKIP,
	MT_SAMPLING_INTERVAL_REUSE, /* the last answer is good enough */
	MT_SAMPLING_INTERVAL_READ
};

/* is_counted: allocated and live bytes are counted, not only told by the allocator when it is
 * asked. */
enum mt_sampling_interval mt_sampling_interval_decide(const struct mt_last_sample *last,
						      const struct mt_policy *policy,
						      const struct mt_snapshot *now,
						      const struct mt_config *cfg, bool is_counted);

/* Resident minus live is no upper bound where live memory is untouched or swapped out, and as old
 * as the last answer where nobody counts: once a second, or every other where that is dear, the
 * allocator is asked all the same, if anything was freed. */
bool mt_sampling_interval_is_overdue(const struct mt_last_sample *last,
				     const struct mt_snapshot *now, bool is_counted);

/* The answer, at_ns and all it has come with; dirty_bytes and cost_ns are the caller's. */
void mt_sampling_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now);

#endif
