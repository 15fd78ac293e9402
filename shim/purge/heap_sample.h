/* purge/heap_sample.h -- what a purge would return, found out as cheaply as the backend allows; and
 * the allocator's other figures, as of the last time that anybody wanted them. Worker thread only;
 * keeps its state in this file. */
#ifndef MT_PURGE_HEAP_SAMPLE_H
#define MT_PURGE_HEAP_SAMPLE_H

#include "heap/backend.h"
#include "purge/policy.h"

void mt_heap_sample_start(void);

/* Fills dirty_bytes where asking is due or the last answer stands (purge/sampling_interval.h), else
 * leaves it unknown. */
void mt_heap_sample_update(struct mt_snapshot *now, const struct mt_policy *policy);

/* Asks now. all: every figure, for whoever wants to read them. */
void mt_heap_sample_read(struct mt_snapshot *now, bool all);

/* A trim has gone through all there was; after: what the process looks like since. Asks again. */
void mt_heap_sample_note_trim(struct mt_snapshot *after);

/* The same, of one that somebody else has made: the next look will find what it left. */
void mt_heap_sample_invalidate(void);

/* As of the last answers. */
const struct mt_heap_figures *mt_heap_sample_figures(void);
uint64_t mt_heap_sample_dirty_bytes(void);

#endif
