/* purge/growth.h -- returns free pages while the heap grows beside them: freed memory of one kind
 * (objects of Python, small blocks) does not serve large blocks, and the next tick may come too
 * late. Owns the size from which growth counts. Any thread, once its block is made and with none of
 * the allocator's locks held. Allocates nothing, opens no file, takes the purge lock. */
#ifndef MT_PURGE_GROWTH_H
#define MT_PURGE_GROWTH_H

#include <stdint.h>

/* The heap may have grown by some MB. Purges if it has grown by 32 MB, and by a 16th of the
 * bytes that stayed free meanwhile. Then pauses until MT_BUDGET_PCT of the time covers the cost.
 * If more than 128 MB are free, the worker purges, and threads that grow wait up to 10 ms at each
 * call, 200 ms in all. */
void mt_purge_growth_note(void);

/* Purges if a thread has left that to the worker. Worker thread. */
void mt_purge_growth_tick(void);

/* Sets the cost of purging 1 MiB and of its page faults, in ns, as learned. Worker thread. */
void mt_purge_growth_set_cost(uint64_t ns);

/* In a forked child. */
void mt_purge_growth_fork_child(void);

#endif
