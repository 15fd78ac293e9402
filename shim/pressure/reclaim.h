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
