/* pressure/direct_reclaim.h -- direct reclaim: a thread whose allocations bring the process near a
 * limit returns the heap's free memory itself, before it goes on, as the kernel has it done for its
 * own limits. The worker's looks say where the limit is (headroom.h). Between two looks each thread
 * compares the heap with that after about every MB that it has allocated. One thread returns memory
 * at a time; the others wait for it, up to 100 ms for each MB that they allocate while too much is
 * still to go, a second for a block. Over glibc they also wait for the worker's look where only
 * that can tell whether the limit is reached (unseen.h). Opens no file, allocates nothing. Lock:
 * the purge lock (heap/purge_lock.h). */
#ifndef MT_PRESSURE_DIRECT_RECLAIM_H
#define MT_PRESSURE_DIRECT_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "pressure/headroom.h"

/* ---- any thread, also from inside malloc once the block is made ---- */

/* The calling thread has allocated so many bytes more. True: mt_reclaim_run is due. */
bool mt_reclaim_count(uint64_t allocated_bytes);

/* Returns free memory if the limit asks for it, and wakes the worker where another look is due.
 * fresh_bytes: what the calling thread has allocated since it was last here. Keeps errno. Not in a
 * child that runs on its parent's memory. */
void mt_reclaim_run(uint64_t fresh_bytes);

/* The calling thread has freed a large block. Returns free memory where somebody else who took as
 * much would pass the limit, or where it is more than an eighth of the limit. Keeps errno. */
void mt_reclaim_after_large_free(void);

/* Free memory has been returned by somebody: the next look begins to measure again. */
void mt_reclaim_note_purge(void);

/* ---- the worker ---- */

/* Before it is started: a thread that has allocated 64 MB until its first look waits for that, 100
 * ms at most. */
void mt_reclaim_expect_sample(void);

/* Growth has asked for a look since the last one. */
bool mt_reclaim_wants_sample(void);

/* A look begins to measure: growth that asks, and memory that is returned, from here on is for the
 * next one, since nobody can tell on which side of the measurement it was. Answers whether free
 * memory has been returned since the last look began. */
bool mt_reclaim_begin_sample(void);

/* The heap as it is now. False: its size is not known. */
bool mt_reclaim_read_heap(struct mt_heap_size *out);

/* A look has measured: from here on threads go by it. */
void mt_reclaim_set_ceiling(const struct mt_headroom_sample *look);

/* The same as mt_reclaim_run for the worker. Any free memory may have become too much, since others
 * grow as well. */
void mt_reclaim_run_on_worker(void);

/* No limit is known, or the worker leaves: nobody compares. */
void mt_reclaim_disable(void);

/* How often memory was returned so, and the time it took. */
void mt_reclaim_read_counters(uint64_t *out_count, uint64_t *out_ns);

void mt_reclaim_fork_child(void);

#endif
