/* heap/growth.h -- the growth of a process, as far as it starts the worker thread or wakes it. */
#ifndef MT_HEAP_GROWTH_H
#define MT_HEAP_GROWTH_H

#include <stddef.h>

/* Allocated bytes of a thread between two looks at growth, where the allocator has no hook that
 * tells. */
#define MT_GROWTH_STEP_BYTES (4ull << 20)

/* The heap has grown: starts the worker if the process is large enough by now, else tells it.
 * Called by the thread that allocated, after the allocator has returned: a thread started inside
 * the allocator would wait for a mutex that its own creator holds. */
void mt_growth_note(void);

/* Address space was mapped, inside the allocator: counts, and where it is time has the next
 * allocation call mt_growth_note. Async-signal-safe. */
void mt_growth_mapped(size_t bytes);

/* The settings are known: with MT_MIN_MB=0 there is something to look at from the first byte on. */
void mt_growth_begin(void);

/* A forked child is looked at from its own first growth on. */
void mt_growth_fork_child(void);

#endif
