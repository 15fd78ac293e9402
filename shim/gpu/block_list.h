/* gpu/block_list.h -- all blocks of the pool, in steps, while the program goes on. For the worker:
 * one list at a time, no lock held. A context's lock is held over a few dozen records of its own
 * that have been looked at before, for about a microsecond; where somebody has waited for it he
 * gets it before the next ones. So a list is no single moment: a block that is allocated or freed
 * meanwhile may be missed, or be there with two records of which the later one is right. What it
 * says of each block was true when it was looked at. No driver call, no memory of its own. */
#ifndef MT_GPU_BLOCK_LIST_H
#define MT_GPU_BLOCK_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/blocks.h"

/* One block, by value. */
struct mt_block_list_block {
	uint64_t base;
	uint64_t bytes;       /* what the driver was asked for */
	uint64_t asked_bytes; /* what the program asked for */
	uint64_t since_ns;    /* CLOCK_MONOTONIC, coarse: handed out where it is live, else freed */
	uint32_t context;     /* number of its slot */
	int device;
	enum mt_block_state state; /* live, pending or idle */
	bool is_non_recyclable;
};

struct mt_block_list {
	struct mt_block_walk walk;
	uint64_t longest_hold_ns; /* longest time that a context's lock was held so far */
};

/* False: there is no pool here (before the first use of CUDA, after its end, in a forked child). */
bool mt_block_list_start(struct mt_block_list *list);

/* The next blocks, at most `most`; 0: that was all. `out` is memory that has been written to: it is
 * filled under the lock, and a page fault there would be the program's wait. */
uint32_t mt_block_list_next(struct mt_block_list *list, struct mt_block_list_block *out,
			    uint32_t most);

#endif
