/* heap/jemalloc_reserve.h -- address space for two moments in which jemalloc crashes where the
 * kernel refuses it memory: its initialisation (it writes to a page that it did not get), and the
 * first allocation of a thread (it uses the thread's cache or arena, which could not be made). Seen
 * with programs under RLIMIT_AS, which libc's malloc survives (tests/fault). Mapped before jemalloc
 * initialises; what is left then is unmapped but for 10 MB. No page of it is touched unless a
 * mapping is refused. What jemalloc takes of it is jemalloc's for good. Any thread, from inside
 * jemalloc. Takes no lock. */
#ifndef MT_HEAP_JEMALLOC_RESERVE_H
#define MT_HEAP_JEMALLOC_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

/* Call them before jemalloc initialises, and after. map returns false where the kernel refuses even
 * this: then jemalloc must not initialise. */
bool mt_jemalloc_reserve_map(void);
void mt_jemalloc_reserve_settle(void);

/* Between the two, where jemalloc has initialised: prepares it for addresses of the reserve. */
void mt_jemalloc_reserve_enter(void);

/* The calling thread allocates for the first time: it may take one arena and two smaller pieces. */
void mt_jemalloc_reserve_open(void);

/* Returns whether jemalloc can use this new mapping of the calling thread. False in a first
 * allocation, where there is no memory for the leaf that jemalloc's tree of addresses needs for the
 * region: unmap it, and call mt_jemalloc_reserve_take. */
bool mt_jemalloc_reserve_accepts(const void *memory, size_t bytes);

/* The kernel has refused the calling thread a mapping. Returns zeroed and equally aligned memory
 * instead in one of the two moments; else, or where none is left, NULL. */
void *mt_jemalloc_reserve_take(size_t bytes);

#endif
