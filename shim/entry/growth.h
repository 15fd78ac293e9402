/* entry/growth.h -- the program's allocation events: each thread, from inside malloc once its block is made, every MB that it allocates
 * over jemalloc and every 4 MB over glibc, looks whether the process is near a limit (reaper/reclaim.h). Cheap where no limit is
 * known: a counter and a subtraction. May return free memory, with none of the allocator's locks held and none of ours. Keeps errno. */
#ifndef MT_GROWTH_H
#define MT_GROWTH_H

#include <stdint.h>

/* Where the allocator counts (jemalloc). */
void mt_growth_took(void);

/* Where we count. What the calling thread has ever allocated. */
void mt_growth_tell(uint64_t allocated_bytes);

#endif
