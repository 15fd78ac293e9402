/* core/trim_request.h -- a request for a cleanup, and its state while it runs. Plain values, shared
 * by core/cleanup.c and the components' trim hooks. No lock: the thread that runs the cleanup owns
 * them. */
#ifndef MT_CORE_TRIM_REQUEST_H
#define MT_CORE_TRIM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* The memory pressure behind a request: the fields of struct mt_stats_cleanup of the same names. */
struct mt_trim_pressure {
	uint32_t sources;
	enum mt_pressure_level level;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

struct mt_trim_request {
	enum mt_reason reason;
	enum mt_level level;
	uint64_t round;
	uint64_t request_seq;
	bool here;      /* a thread of the program runs it: Python may collect in this thread */
	bool flush_gpu; /* empty GPU caches too, at any level */
	bool is_retry;  /* empties caches that an earlier cleanup left because of a capture */
	struct mt_trim_pressure pressure;
};

struct mt_cleanup {
	struct mt_stats_cleanup stats; /* its entry in the stats file */
	bool skips_for_ranks;  /* several processes train together: no collection, no flush */
	bool caches_skipped;   /* python/: a capture kept it from emptying framework caches */
	bool was_purged;       /* heap/: prepare_trim has purged already */
	bool purge_possible;   /* heap/: the allocator can return memory */
	uint64_t purge_cpu_ns; /* heap/: CPU time of the purges */
	/* heap/: empties the calling thread's allocator cache; may be NULL */
	void (*flush_thread)(void);
};

/* Returns whether the request includes the caches of GPU devices. */
static inline bool mt_trim_reaches_devices(const struct mt_trim_request *request)
{
	return request->level == MT_LEVEL_HEAVY || request->flush_gpu;
}

#endif
