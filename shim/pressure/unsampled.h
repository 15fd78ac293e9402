/* pressure/unsampled.h -- growth that no look has seen, where the footprint of the heap is not
 * known: over glibc only live bytes are, and what is allocated may lie beside the free memory or in
 * it. So for all that is known, the process has grown since the last look by every rise of live
 * bytes. A thread by which that would reach the limit waits for the next look. Falls of less than a
 * small step count for nothing, nor do the rises after them: a program that turns memory over would
 * wait all the time. Any thread, but where it says the worker. Takes no lock. */
#ifndef MT_PRESSURE_UNSAMPLED_H
#define MT_PRESSURE_UNSAMPLED_H

#include <stdbool.h>
#include <stdint.h>

/* Live bytes are so many now. */
void mt_unsampled_add(int64_t live_bytes, int64_t step_bytes);

/* The growth, as noted. */
int64_t mt_unsampled_bytes(void);

/* Free memory has been returned: nothing is unseen. */
void mt_unsampled_reset(int64_t live_bytes);

/* Wakes the worker and waits until it has looked, so long at most. Where that was without effect
 * nobody waits again before it has: it may have longer work. True: it has looked. */
bool mt_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns);

/* The worker begins to measure, and has measured. */
void mt_unsampled_begin_sample(void);
void mt_unsampled_end_sample(void);

#endif
