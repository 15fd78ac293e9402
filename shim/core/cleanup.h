/* core/cleanup.h -- runs cleanups through the components' trim hooks and publishes each one's
 * result: memory before and after, duration, reason. Owns the counters below. Any thread may call,
 * outside the allocator, unless a comment names the worker thread. Takes the publish lock, no lock
 * of its own. Keeps errno. */
#ifndef MT_CORE_CLEANUP_H
#define MT_CORE_CLEANUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"
#include "core/components.h"

/* Runs a cleanup in the calling thread. *out: the published result, with its number. */
void mt_cleanup_run(const struct mt_trim_request *request, struct mt_stats_cleanup *out);

/* ---- requested cleanups (mtctl, signal, rounds): up to one a second; worker thread ---- */

/* Runs a requested cleanup and calls the components' cleaned hooks, with charged = false. */
void mt_cleanup_run_requested(const struct mt_trim_request *request);

/* Returns whether a second has passed since the last requested cleanup ended. now_ns:
 * CLOCK_MONOTONIC. */
bool mt_cleanup_requested_may_run(uint64_t now_ns);

/* Returns the time at which that second ends, in ns of CLOCK_MONOTONIC; 0 before the first one. */
uint64_t mt_cleanup_requested_next_ns(void);

/* ---- cleanups that are published without a run ---- */

/* Publishes a request that is merged into a later cleanup, with the figures published last. The
 * stats file receives it together with that cleanup. */
void mt_cleanup_note_merged(const struct mt_trim_request *request);

/* Publishes a release of device memory that has ended: of PyTorch's cache by MT_FRAMEWORK_DECAY_MS,
 * or for a process that was out of it. Of *release: reason, duration_ns, gpu_before_bytes,
 * gpu_after_bytes, frameworks, rescued_pid. */
void mt_cleanup_add_release(const struct mt_stats_cleanup *release);

/* Counts merged requests that are not published one by one. counts: by level. */
void mt_cleanup_count_merged(const uint64_t counts[MT_LEVEL_COUNT]);

/* ---- counters for the purge policy ---- */

/* Adds bytes that a thread of the program returned to the kernel itself (direct reclaim,
 * mt_trim). */
void mt_cleanup_add_program_bytes(uint64_t bytes);

/* Returns those bytes since the last call, and resets them. */
uint64_t mt_cleanup_take_program_bytes(void);

/* Returns the CPU time in ns of the worker's purges since the last call, and resets it. Wall time
 * would charge other programs' work to the shim on a busy machine. */
uint64_t mt_cleanup_take_worker_purge_ns(void);

/* Resets the counters in a forked child. */
void mt_cleanup_fork_child(void);

#endif
