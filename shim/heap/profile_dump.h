/* heap/profile_dump.h -- what the heap consists of, for mtctl: the allocator's table of size
 * classes, and its profile of live blocks by stack. Worker thread only, with no lock held, since
 * switching the profiler on calls the loader. */
#ifndef MT_HEAP_PROFILE_DUMP_H
#define MT_HEAP_PROFILE_DUMP_H

#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* Stores the profiler's state in the snapshot: 0 missing, 1 ready, 2 sampling. */
void mt_heap_profile_publish(void);

/* Switches the profiler as `wanted` says; it goes on while a look wants it. MT_ERR_NOT_AVAILABLE:
 * it was not prepared at the start of the process, or the allocator has none. MT_ERR_SYSTEM: stacks
 * cannot be walked here. */
enum mt_err mt_heap_profile_follow(const struct mt_config *wanted);

/* Has the profiler sample for a look of mtctl (MT_REQUEST_SAMPLE), extends its time, or ends it.
 * Sampling ends with the last look if MT_PROF, or MALLOC_CONF, does not want it. Errors: as
 * above, and MT_ERR_INVALID, MT_ERR_RANGE for a malformed value. */
enum mt_err mt_heap_profile_look(const struct mt_request *request);

/* Ends looks whose time is over. Returns when the next one ends, in ns of CLOCK_MONOTONIC;
 * UINT64_MAX: none. */
uint64_t mt_heap_profile_tick(uint64_t now_ns);

/* Fills and publishes the table of size classes. */
enum mt_err mt_heap_profile_classes(void);

/* Writes a profile, beside the stats file. */
enum mt_err mt_heap_profile_profile(void);

#endif
