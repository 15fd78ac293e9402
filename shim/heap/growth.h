/* heap/growth.h -- the growth of a process: starts the worker thread once the process is large
 * enough, and wakes it later. Counted bytes alone tell: after each MT_GROWTH_STEP_BYTES that the
 * process allocates it is checked. Owns those counts. Takes the lock of heap/account.h. Keeps no
 * errno if nothing else is said. */
#ifndef MT_HEAP_GROWTH_H
#define MT_HEAP_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

/* Allocated bytes between two checks. */
#define MT_GROWTH_STEP_BYTES (4ull << 20)

/* Returns whether resident anonymous memory or live bytes have reached MT_MIN_MB, or free resident
 * bytes a quarter of it. Any thread; reads a file of /proc. */
bool mt_growth_is_large(void);

/* Checks the size of the process: starts the worker if mt_growth_is_large, tells a worker that
 * runs. Called by the thread that allocated, after the allocator has returned: a thread started
 * inside the allocator would wait for a mutex that its own creator holds. */
void mt_growth_note(void);

/* Over the embedded jemalloc: the calling thread has allocated so many bytes more. If a check is
 * due, calls mt_growth_note for a block of MT_GROWTH_STEP_BYTES or more, and otherwise has the next
 * allocation call it. Any thread, inside jemalloc once it has made the block and while it holds
 * none of its locks. Keeps errno. */
void mt_growth_allocated(uint64_t fresh_bytes);

/* Over the embedded jemalloc, until the worker runs: bytes that count as allocated ones. The first
 * allocation of a thread counts as MT_BACKEND_EVENT_BYTES, which it may allocate before its first
 * event. Any thread, inside jemalloc while it holds none of its locks. */
void mt_growth_without_worker(uint64_t bytes);

/* The same for bytes that the thread has freed: a forked child may only free what it has inherited.
 * Once a MB is free, returns free memory to the kernel. Keeps errno. */
void mt_growth_freed(uint64_t bytes);

/* Has the pages of the heap for Python's objects counted, too. Once, when the heap begins. */
void mt_growth_begin(void);

/* In a forked child: it is checked from its own growth on. */
void mt_growth_fork_child(void);

#endif
