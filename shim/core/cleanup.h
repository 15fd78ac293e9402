/* core/cleanup.h -- carries a cleanup out and keeps the record of it: Python's gc, then the heap,
 * measured before and after. Any thread that is not inside the allocator may call; one purge at a
 * time (actions lock, held over it; fork does not take it, nor is it held while Python collects).
 */
#ifndef MT_CORE_CLEANUP_H
#define MT_CORE_CLEANUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* Why pressure asked: see the fields of the record. */
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
	bool made_up;   /* of what a capture made an earlier one leave out */
	struct mt_trim_pressure pressure;
};

/* Cleans up, fills *out (numbered and published). */
void mt_cleanup_run(const struct mt_trim_request *order, struct mt_stats_record *out);

/* A record of a cleanup that another one stands for, merged into it. It is made of the last
 * published figures and goes to the file with the next record: rounds may end much faster than the
 * process can be looked at. */
void mt_cleanup_note_merged(const struct mt_trim_request *order);

/* The record of a release of PyTorch's cache by MT_FRAMEWORK_DECAY_MS. */
void mt_cleanup_add_framework(uint64_t gpu_before_bytes, uint64_t gpu_after_bytes,
			      uint64_t duration_ns);

/* Merged cleanups, so many of each level, of which no record would be kept for long: they only
 * count. */
void mt_cleanup_count_merged(const uint64_t counts[MT_LEVEL_COUNT]);

/* RSS that cleanups outside the worker have returned since the last call; the governor must know of
 * them. */
uint64_t mt_cleanup_program_bytes(void);

/* CPU time of the worker's own purges since the last call: what they take from the program. The
 * records tell the time that passed, which on a busy machine is mostly other programs' (seen: 230
 * ms for 124 MB under a load of 12 on 2 cores). */
uint64_t mt_cleanup_worker_purge_ns(void);

/* Direct reclaim has returned so many. Any thread. */
void mt_cleanup_note_program(uint64_t bytes);

void mt_cleanup_fork_child(void);

#endif
