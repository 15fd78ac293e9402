/* heap/jemalloc_reserve.h -- address space for the two moments in which jemalloc does not survive
 * that the kernel refuses it some: when it begins (it writes into a page that it did not get), and
 * when a thread does (it uses the thread's cache, or the thread's arena, which could not be made).
 * Mapped before jemalloc begins, which has all of it in hand then; what is left goes back but for a
 * few MB for threads. Nobody touches it unless something is refused, so it costs address space
 * alone. What is handed out is jemalloc's for good. Any thread, from inside the allocator; no lock.
 */
#ifndef MT_HEAP_JEMALLOC_RESERVE_H
#define MT_HEAP_JEMALLOC_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

/* Before jemalloc begins, and after. False: not even that much is to be had, and jemalloc must not
 * begin. */
bool mt_jemalloc_reserve_map(void);
void mt_jemalloc_reserve_settle(void);

/* Between the two, if jemalloc has begun: it is made ready to use memory where the reserve lies. */
void mt_jemalloc_reserve_enter(void);

/* The calling thread begins: it may be served one arena and two smaller pieces. */
void mt_jemalloc_reserve_open(void);

/* The kernel has given the calling thread this mapping. False: the thread begins, and jemalloc
 * could not enter it into its tree of addresses, since there is no room for the leaf that this
 * region needs; it is to be given back, and the reserve asked. */
bool mt_jemalloc_reserve_accepts(const void *memory, size_t bytes);

/* The kernel has refused the calling thread a mapping: memory in its stead, zeroed and as well
 * aligned, where this is one of those moments; else, and when there is no more, NULL. */
void *mt_jemalloc_reserve_take(size_t bytes);

#endif
