/* pressure/unsampled.h -- growth of the heap since the last pressure sample, if the heap's
 * footprint is unknown. Over glibc only live bytes are known, and an allocation may lie beside free
 * memory or in it. So every rise of live bytes counts as growth. A thread whose growth would reach
 * the limit waits for the next sample. A fall smaller than a step is ignored together with the rise
 * after it: a program that frees and allocates again would wait all the time. Without this programs
 * are killed whose worker thread gets no CPU (tests/pressure/pressure_hoard.c late). Owns those
 * counters.
 * Any thread may call, unless a comment names the worker thread. Takes no lock. */
#ifndef MT_PRESSURE_UNSAMPLED_H
#define MT_PRESSURE_UNSAMPLED_H

#include <stdbool.h>
#include <stdint.h>

/* Adds the rise of live bytes since the last call. step_bytes: smaller falls are ignored. */
void mt_unsampled_add(int64_t live_bytes, int64_t step_bytes);

/* Returns the growth since the last sample began. */
int64_t mt_unsampled_bytes(void);

/* Resets the growth, after free memory was returned. */
void mt_unsampled_reset(int64_t live_bytes);

/* Calls wake, then waits up to timeout_ns for the worker's next sample. Returns whether it came.
 * After a wait without result no thread waits again before that sample: the worker may be busy. */
bool mt_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns);

/* Called when a sample begins and ends. Worker thread. */
void mt_unsampled_begin_sample(void);
void mt_unsampled_end_sample(void);

#endif
