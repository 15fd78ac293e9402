/* heap/jemalloc_check.h -- whether the embedded jemalloc knows the names that the shim asks for,
 * and how large its pages are. Takes no lock of ours. Never returns memory. */
#ifndef MT_HEAP_JEMALLOC_CHECK_H
#define MT_HEAP_JEMALLOC_CHECK_H

#include <stdint.h>

/* Once, by the thread that starts jemalloc, after its first allocation. Returns NULL where it fits,
 * otherwise the reason, in memory that is never freed. A name that cannot be looked up for want of
 * memory fits. */
const char *mt_jemalloc_check(void);

/* Returns the unit in which jemalloc counts pages, in bytes: those that it was built for, which may
 * be larger than the kernel's (64 KiB on Debian's aarch64). The kernel's before the check. Any
 * thread. */
uint64_t mt_jemalloc_page_bytes(void);

#endif
