/* pressure/reclaim.h -- direct reclaim: a thread that allocates close to a limit returns the heap's
 * free memory to the kernel itself, as the kernel does for its own limits. The worker's samples
 * tell how close the limit is. Between samples each thread compares the heap with the last one,
 * after about every MB that it allocates. One thread returns memory at a time. The others wait for
 * it: up to 100 ms for each MB that they allocate, and up to 1 s. Over glibc they also wait for a
 * sample if only that can tell whether the limit is reached. Owns the copy of the ceiling that
 * threads read. Takes the purge lock (heap/purge_lock.h). Opens no file, allocates nothing.
 * Decision: docs/decisions/0001. */
#ifndef MT_PRESSURE_RECLAIM_H
#define MT_PRESSURE_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

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

/* The size of the heap. */
struct mt_heap_size {
	bool exact;
	int64_t held_bytes;  /* exact: active pages; else live bytes */
	int64_t free_bytes;  /* exact: free and resident; else 0 */
	int64_t fresh_bytes; /* of held_bytes, allocated by the caller since its last check */
};

struct mt_headroom_sample {
	uint64_t now_ns;
	uint64_t used_bytes;          /* charged to the limit */
	uint64_t limit_bytes;         /* not 0 */
	uint64_t sample_growth_bytes; /* growth after which another sample is due */
	/* used bytes from which on Python is asked to collect garbage; 0: never */
	uint64_t critical_bytes;
	uint64_t clear_bytes; /* used bytes below which the next crossing asks again at once */
	uint64_t anon_bytes;  /* anonymous resident memory of the process */
	struct mt_heap_size heap;
	bool purged; /* free memory was returned since the last sample */
};

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

/* ---- direct reclaim: any thread, at the end of a malloc or free call ---- */

/* Counts bytes that the calling thread has allocated. Returns whether mt_reclaim_run is due. */
bool mt_reclaim_count(uint64_t allocated_bytes);

/* Compares the heap with the limit: returns free memory, or wakes the worker for a sample. If
 * the limit is far, one thread returns memory every 50 ms, and the others leave it to the worker.
 * fresh_bytes: allocated by the calling thread since its last check. Keeps errno. Returns no memory
 * in a child that runs on its parent's memory. */
void mt_reclaim_run(uint64_t fresh_bytes);

/* Called after a large block was freed. Returns free memory of more than 1/8 of the limit, or so
 * much that an equal allocation elsewhere would pass the limit. Keeps errno. */
void mt_reclaim_after_large_free(void);

/* Notes that free memory was returned: the next sample starts a new measurement. */
void mt_reclaim_note_purge(void);

/* ---- worker thread ---- */

/* Called before the worker starts, on the starting thread: a thread that allocates 64 MB before the
 * first sample waits for it, up to 100 ms. */
void mt_reclaim_expect_sample(void);

/* Returns whether a sample is due that growth has requested since the last one began. If it is
 * due later, lowers *wake_ns to that time. */
bool mt_reclaim_wants_sample(uint64_t now_ns, uint64_t *wake_ns);

/* Begins a sample: later requests, and memory returned later, belong to the next one, since the
 * measurement may have missed them. Returns whether free memory was returned since the last sample
 * began. */
bool mt_reclaim_begin_sample(void);

/* Reads the size of the heap. Returns false if it is unknown. */
bool mt_reclaim_read_heap(struct mt_heap_size *out);

/* Ends a sample: threads compare with it from now on. */
void mt_reclaim_set_ceiling(const struct mt_headroom_sample *sample);

/* As mt_reclaim_run, on the worker thread: free memory may be too much after growth elsewhere. */
void mt_reclaim_run_on_worker(void);

/* Stops the comparison: no limit is known, or the worker ends. */
void mt_reclaim_disable(void);

/* Reads how often free memory was returned, and the total time in ns. */
void mt_reclaim_read_counters(uint64_t *out_count, uint64_t *out_ns);

/* Resets the module in a forked child. */
void mt_reclaim_fork_child(void);

#endif
