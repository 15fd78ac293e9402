/* heap/allocation_event.h -- the program's allocation events: each thread, from inside malloc once
 * its block is made, every MB that it allocates over jemalloc and every 4 MB over glibc, looks
 * whether the process is near a limit (pressure/direct_reclaim.h). Cheap where no limit is known: a
 * counter and a subtraction. May return free memory, with none of the allocator's locks held and
 * none of ours. Keeps errno. */
#ifndef MT_HEAP_ALLOCATION_EVENT_H
#define MT_HEAP_ALLOCATION_EVENT_H

#include <stdint.h>

/* Where the allocator counts (jemalloc). */
void mt_allocation_event_took(void);

/* The calling thread has freed a block of 32 MB or more, or realloc has cut off as much (jemalloc).
 */
void mt_allocation_event_freed_large(void);

/* Where we count. What the calling thread has ever allocated. */
void mt_allocation_event_tell(uint64_t allocated_bytes);

/* In a forked child, over jemalloc: its threads' calls are watched until it has a worker thread. */
void mt_allocation_event_watch_child(void);

/* Every so many allocations of a thread of such a child: starts the worker thread when its threads
 * have allocated as much as makes a program look at itself. Called by the thread that allocated,
 * after the allocator has returned. Keeps errno. */
void mt_allocation_event_watched(void);

#endif
