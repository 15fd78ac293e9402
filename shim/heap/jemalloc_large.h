/* heap/jemalloc_large.h -- reports large blocks that are freed, or shrunk in place by realloc. libc
 * returns such memory to the kernel at once; jemalloc keeps the pages as dirty ones. */
#ifndef MT_HEAP_JEMALLOC_LARGE_H
#define MT_HEAP_JEMALLOC_LARGE_H

#include <stddef.h>

/* bytes: the most that glibc's threshold of mmap comes to */
#define MT_JEMALLOC_LARGE_LEAST (32u << 20)

/* Before jemalloc begins. Large blocks are of size classes in every version, unless a setting of
 * the user says otherwise. freed: called by the thread that has freed such a block, or whose
 * realloc brings the bytes cut off since the last call to as many, with none of jemalloc's locks
 * held. Never called by a version of jemalloc whose functions are others. */
void mt_jemalloc_large_use(void (*freed)(void));

/* Once, by the thread that starts jemalloc, before another uses it: finds out how large blocks are
 * told. Frees one of 128 kB where the version of jemalloc has no function for that. */
void mt_jemalloc_large_begin(void);

#endif
