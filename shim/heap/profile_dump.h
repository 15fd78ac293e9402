/* heap/profile_dump.h -- who holds the heap: the allocator's table of size classes, and its profile
 * of who allocated what is live. Worker thread only, with no lock held: the profiler is switched on
 * through the loader. */
#ifndef MT_HEAP_PROFILE_DUMP_H
#define MT_HEAP_PROFILE_DUMP_H

#include <stdint.h>

#include "core/config.h"

/* The thread has just started: tells how the profiler stands. */
void mt_heap_profile_start(void);

/* For prof_state in the snapshot: 0 not there, 1 ready, 2 samples. */
uint64_t mt_heap_profile_state(void);

/* Makes the profiler do what `wanted` says of it. NOT_AVAILABLE: it was not made ready at the start
 * of the process, or this allocator has none. SYSTEM: it has no way to walk stacks here. */
enum mt_err mt_heap_profile_follow(const struct mt_config *wanted);

/* Fills and publishes the table of size classes. */
enum mt_err mt_heap_profile_classes(void);

/* Writes a profile, beside the stats file. */
enum mt_err mt_heap_profile_profile(void);

#endif
