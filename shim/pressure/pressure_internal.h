/* pressure/pressure_internal.h -- what pressure/ and its tests alone use: the parts of
 * pressure/reclaim.c, and the report that MT_RSS_LIMIT_MB is still reached after a cleanup. */
#ifndef MT_PRESSURE_PRESSURE_INTERNAL_H
#define MT_PRESSURE_PRESSURE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"
#include "pressure/reclaim.h"

/* ---- growth since the last sample ---- */

/* Growth of the heap since the last pressure sample, if the heap's footprint is unknown. Over glibc
 * only live bytes are known, and an allocation may lie beside free memory or in it. So every rise
 * of live bytes counts as growth. A thread whose growth would reach the limit waits for the next
 * sample. A fall smaller than a step is ignored together with the rise after it: a program that
 * frees and allocates again would wait all the time. Without this programs are killed whose worker
 * thread gets no CPU (tests/pressure/pressure_hoard.c late). Owns those counters. Any thread may
 * call, unless a comment names the worker thread. Takes no lock. */

/* Adds the rise of live bytes since the last call. step_bytes: smaller falls are ignored. */
void mt_reclaim_unsampled_add(int64_t live_bytes, int64_t step_bytes);

/* Returns the growth since the last sample began. */
int64_t mt_reclaim_unsampled_bytes(void);

/* Resets the growth, after free memory was returned. */
void mt_reclaim_unsampled_reset(int64_t live_bytes);

/* Calls wake, then waits up to timeout_ns for the worker's next sample. Returns whether it came.
 * After a wait without result no thread waits again before that sample: the worker may be busy. */
bool mt_reclaim_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns);

/* Called when a sample begins and ends. Worker thread. */
void mt_reclaim_unsampled_begin_sample(void);
void mt_reclaim_unsampled_end_sample(void);

/* ---- headroom ---- */

/* Computes how much free memory the heap may keep below a limit. Pure: owns no state but struct
 * mt_headroom. Any thread may call with its own values. Takes no lock.
 *
 * A sample gives the bytes that the limit charges outside the heap: used bytes minus the bytes of
 * the heap. With them any thread can tell from the heap alone how close the limit is, without
 * opening a file. Memory that is allocated but not touched is in the heap's bytes, not in the used
 * bytes, and makes the outside bytes too small for a moment. So the largest value of the last two
 * seconds counts.
 *
 * Over jemalloc the heap's bytes are its active pages and its free resident pages; both are exact.
 * Over other allocators only live bytes are known, and free memory looks like outside memory. There
 * the smallest outside bytes since a purge (the floor) tell how much is not free memory.
 *
 * The margin below the limit is 1/32 of it, and at least 4 MB. It covers what no sample has seen:
 * growth outside the heap, a MB for each thread that allocates, page tables, and freed pages that
 * the kernel still charges. `make check-limits` is the test of all this. */

/* The state between samples; all 0 at first. */
struct mt_headroom {
	bool known, exact;
	uint64_t window_ns; /* when recent_bytes began */
	int64_t recent_bytes, older_bytes;
	int64_t floor_bytes;
	uint64_t used_bytes;
	uint64_t pause_ns; /* after a purge without effect; only if not exact */
};

/* What threads compare the heap with until the next sample. */
struct mt_ceiling {
	int64_t limit_bytes; /* 0: there is no limit */
	int64_t outside_bytes;
	int64_t floor_bytes; /* of outside_bytes, not free memory of the heap; exact: all */
	int64_t used_bytes;
	int64_t sample_at_bytes; /* live and free bytes at which another sample is due */
	/* live bytes from which on Python is asked to collect; INT64_MAX: never */
	int64_t critical_bytes;
	int64_t clear_bytes; /* live bytes below which the next crossing asks again at once */
	bool exact;
	uint64_t sample_ns;
	uint64_t pause_until_ns; /* until then only free memory of 1/8 of the limit is purged */
};

/* What a purge can return. */
struct mt_reclaimable {
	/* charged bytes, or soon to be charged, that a purge cannot return */
	int64_t live_bytes;
	int64_t free_bytes;    /* bytes that it can return */
	int64_t allowed_bytes; /* of them, how many may stay below the limit and its margin */
};

/* Adds a sample and sets *out for the threads. */
void mt_reclaim_headroom_update(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
				struct mt_ceiling *out);

/* Returns what a purge could return now. heap: as read now. */
struct mt_reclaimable mt_reclaim_ceiling_reclaimable(const struct mt_ceiling *ceiling,
						     const struct mt_heap_size *heap);

/* Returns whether free memory must be returned now. now_ns: CLOCK_MONOTONIC. */
bool mt_reclaim_ceiling_is_passed(const struct mt_ceiling *ceiling,
				  const struct mt_reclaimable *left, uint64_t now_ns);

/* ---- the report of MT_RSS_LIMIT_MB, with the memory by owner ---- */

/* Fills the heap's shares, the other anonymous memory, and the advice. limit_report: rss, anon,
 * file, shmem and swap bytes are set. resident_known: the allocator tells how much of the heap is
 * resident; else free memory that cannot be returned counts as other anonymous memory. Pure. */
void mt_pressure_rss_limit_attribute(struct mt_stats_limit_report *limit_report,
				     const struct mt_stats_snapshot *figures, bool resident_known);

#endif
