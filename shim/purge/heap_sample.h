/* purge/heap_sample.h -- measures the bytes that a purge would return (dirty bytes), as cheaply as
 * the allocator allows, and keeps the allocator's other figures. Over glibc free chunks are walked
 * if live memory that was never touched hides them (UNTOUCHED in tests/core/test_worker.py).
 * Owns the last results. Only the worker thread may call. Takes no lock of the shim; the allocator
 * may take its own. */
#ifndef MT_PURGE_HEAP_SAMPLE_H
#define MT_PURGE_HEAP_SAMPLE_H

#include "heap/backend.h"
#include "purge/policy.h"

/* Resets the results, when the worker thread starts. */
void mt_heap_sample_start(void);

/* Sets now->dirty_bytes and dirty_known if a measurement is due or the last one is still valid
 * (purge/sampling_interval.h). Else leaves dirty_known false. */
void mt_heap_sample_update(struct mt_snapshot *now, const struct mt_policy *policy);

/* Measures now. all: read every figure of the allocator, whatever that costs. */
void mt_heap_sample_read(struct mt_snapshot *now, bool all);

/* Notes that a purge of this thread has gone through the whole heap, and measures again. after: the
 * process after the purge. */
void mt_heap_sample_note_trim(struct mt_snapshot *after);

/* Discards the last results, after a purge by another thread. */
void mt_heap_sample_invalidate(void);

/* Return the last results: all figures, and the dirty bytes. */
const struct mt_heap_figures *mt_heap_sample_figures(void);
uint64_t mt_heap_sample_dirty_bytes(void);

#endif
