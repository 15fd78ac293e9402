/* heap/mlockall.h -- mlockall(2) of a user who may lock little memory: the kernel counts all
 * address space, and jemalloc takes 18 MB of it before the first block. A program that locked
 * itself within the usual 8 MB would be refused over jemalloc. */
#ifndef MT_HEAP_MLOCKALL_H
#define MT_HEAP_MLOCKALL_H

#include <stdbool.h>

/* Whether an object of the process calls mlockall, the process would fit into RLIMIT_MEMLOCK as it
 * was loaded, and jemalloc would use up what is left. By the objects that are loaded: who finds
 * mlockall by dlsym is not seen. At the first allocation; allocates nothing, keeps errno. */
bool mt_memlock_is_tight(void);

#endif
