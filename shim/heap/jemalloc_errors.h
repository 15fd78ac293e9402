/* heap/jemalloc_errors.h -- heap errors of the program: a block that is freed twice, a pointer that
 * is no block. As libc's malloc does, it writes a line to descriptor 2 and aborts. Some errors are
 * found in any case, outside jemalloc's hot paths: a large block freed twice, memory that is not
 * the heap's, a slab that is empty by its count and not by its bits, a signal handler that
 * allocates inside malloc. MT_CHECK=1 looks at each pointer before it is freed. Reads jemalloc's
 * own data, whose layout is tried at the start; in a version of another layout it finds nothing.
 * Any thread. Takes no lock, never allocates. */
#ifndef MT_HEAP_JEMALLOC_ERRORS_H
#define MT_HEAP_JEMALLOC_ERRORS_H

#include <stdbool.h>

/* Tries the layout. Once, by the thread that starts jemalloc, before another uses it. */
void mt_jemalloc_errors_begin(void);

/* Returns whether the layout of this version is known. */
bool mt_jemalloc_errors_are_known(void);

/* Aborts unless ptr is a live block of jemalloc's; blocks in threads' caches count as live. call:
 * the first word of the line. */
void mt_jemalloc_errors_check(const char *call, const void *ptr);

/* Aborts if jemalloc is about to free an extent that is NULL or is not in use. */
void mt_jemalloc_errors_check_large(const void *extent);

/* Aborts if the calling thread is the owner of the lock that jemalloc is about to wait for. */
void mt_jemalloc_errors_check_owner(int owner);

#endif
