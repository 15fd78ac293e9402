/* heap/jemalloc_kernel.h -- whether the kernel has the memory for a mapping of jemalloc's. Any
 * thread, also inside jemalloc. Takes no lock. */
#ifndef MT_HEAP_JEMALLOC_KERNEL_H
#define MT_HEAP_JEMALLOC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

/* protection, flags: of the mmap call. True for all that is small beside any machine, and where
 * jemalloc maps with reserve itself. */
bool mt_jemalloc_kernel_has(size_t bytes, int protection, int flags);

#endif
