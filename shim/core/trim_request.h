/* core/trim_request.h -- what a cleanup is asked to do, and what is known of it while it runs. Plain
 * values; shared by core/cleanup.c and the components' trim hooks. */
#ifndef MT_CORE_TRIM_REQUEST_H
#define MT_CORE_TRIM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* Why memory pressure asked: see the fields of the record. */
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
	bool here;      /* the caller is a thread of the program: gc may run in it */
	bool flush_gpu; /* GPU caches too, whatever the level */
	bool is_retry;  /* makes up for caches that an earlier cleanup left because of a capture */
	struct mt_trim_pressure pressure;
};

struct mt_cleanup {
	struct mt_stats_cleanup record;
	bool skips_for_ranks;  /* several processes train together: no collection, no flush */
	bool caches_left;      /* python/: caches of frameworks were left because of a capture */
	bool was_purged;       /* heap/: in prepare_trim already */
	bool purge_possible;   /* heap/: the allocator has a way to return memory */
	uint64_t purge_cpu_ns; /* heap/: CPU time of the purges */
	void (*flush_thread)(
		void); /* heap/: empties the calling thread's allocator cache; or NULL */
};

/* Whether the request reaches the caches of GPU devices. */
static inline bool mt_trim_reaches_devices(const struct mt_trim_request *request)
{
	return request->level == MT_LEVEL_HEAVY || request->flush_gpu;
}

#endif
