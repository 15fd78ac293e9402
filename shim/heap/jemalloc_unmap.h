/* heap/jemalloc_unmap.h -- address space that jemalloc returns. jemalloc keeps what it has purged
 * mapped, for reuse. Under RLIMIT_AS or RLIMIT_DATA nobody else in the process could then map
 * anything: no thread, no library. There a purge unmaps free extents, and frees lead to a purge at
 * once, as libc's do. Any thread, also inside jemalloc. */
#ifndef MT_HEAP_JEMALLOC_UNMAP_H
#define MT_HEAP_JEMALLOC_UNMAP_H

#include <stdbool.h>
#include <stddef.h>

/* Sets the limit in bytes, also before jemalloc begins. From now on address space is returned, for
 * good; the limit decides how much may stay, and which extents are large enough. at_once: if the
 * limit is new, purges all arenas under the purge lock; else the next large free does. */
void mt_jemalloc_unmap_use(size_t limit_bytes, bool at_once);

/* The kernel has refused jemalloc a mapping. Any thread, also inside jemalloc. Takes no lock. */
void mt_jemalloc_unmap_refused(void);

/* Returns to the kernel what is free, and again what was purged before: khugepaged may have filled
 * it. Worker thread; takes the purge lock for each arena. */
void mt_jemalloc_purge_again(void);

/* Whether the kernel has the memory for a mapping of jemalloc's. Any thread, also inside jemalloc.
 * Takes no lock. */

/* protection, flags: of the mmap call. True for all that is small beside any machine, and where
 * jemalloc maps with reserve itself. */
bool mt_jemalloc_kernel_has(size_t bytes, int protection, int flags);

#endif
