/* entry/growth.h -- what a thread of the program allocates and frees, told to the reaper's throttle (reaper/throttle.h) from inside
 * malloc, once the block is made: every MB that it allocates over jemalloc, every 4 MB over glibc. Cheap where no limit is
 * known: two counters and a subtraction. May wait, with none of the allocator's locks held and none of ours. Keeps errno. */
#ifndef MT_GROWTH_H
#define MT_GROWTH_H

#include <stdint.h>

/* Where the allocator counts (jemalloc). */
void mt_growth_took(void);

/* The same at the end of a realloc whose block has now so many bytes: the old one is counted as freed by now, and only what the new
 * one has more is growth. */
void mt_growth_moved(uint64_t block_bytes);

/* Where we count. What the calling thread has ever allocated and freed. */
void mt_growth_tell(uint64_t allocated_bytes, uint64_t freed_bytes);

/* Where we count: so much of both, since the last time, was one block and still is. */
void mt_growth_keep(uint64_t bytes);

#endif
