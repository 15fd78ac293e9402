/* core/cleanup.h -- runs a cleanup through the components' trim hooks, and keeps its record: memory
 * before and after, duration, reason. Any thread outside the allocator may call unless a comment
 * says otherwise. Keeps errno. Takes no lock of its own. */
#ifndef MT_CORE_CLEANUP_H
#define MT_CORE_CLEANUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"
#include "core/trim_request.h"

/* Cleans up and fills *out: a record that is numbered and published. */
void mt_cleanup_run(const struct mt_trim_request *request, struct mt_stats_cleanup *out);

/* ---- cleanups that somebody asked for: one a second. Worker thread. ---- */

/* Runs one and tells the components of it (cleaned, not charged). */
void mt_cleanup_run_requested(const struct mt_trim_request *request);

/* Whether a second has passed since the last one ended. */
bool mt_cleanup_requested_may_run(uint64_t now_ns);

/* When that second is over, in ns of CLOCK_MONOTONIC. */
uint64_t mt_cleanup_requested_next_ns(void);

/* ---- records ---- */

/* Adds the record of a cleanup that another one stands for. It is made of the last published figures
 * and goes to the file with the next record: rounds may end faster than the process can be measured.
 */
void mt_cleanup_note_merged(const struct mt_trim_request *request);

/* Adds the record of a release of PyTorch's cache by MT_FRAMEWORK_DECAY_MS. */
void mt_cleanup_add_framework(uint64_t gpu_before_bytes, uint64_t gpu_after_bytes,
			      uint64_t duration_ns);

/* Counts merged cleanups of which no record is kept: so many of each level. */
void mt_cleanup_count_merged(const uint64_t counts[MT_LEVEL_COUNT]);

/* ---- what the purge policy must know ---- */

/* Threads of the program have returned memory by themselves (direct reclaim). Any thread. */
void mt_cleanup_add_program_bytes(uint64_t bytes);

/* Bytes that cleanups outside the worker have returned since the last call. */
uint64_t mt_cleanup_take_program_bytes(void);

/* CPU time in ns of the worker's purges since the last call. A record has wall time, which on a busy
 * machine is mostly other programs'. */
uint64_t mt_cleanup_take_worker_purge_ns(void);

void mt_cleanup_fork_child(void);

#endif
