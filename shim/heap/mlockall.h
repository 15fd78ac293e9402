/* heap/mlockall.h -- programs that call mlockall(2): the kernel then locks all that is mapped,
 * now or later, and jemalloc maps more than it hands out (18 MB before the first block, then up to
 * 60 % more than the program holds). Within 8 MB, the kernel's default for users, the call would
 * be refused, and near a memory limit the process killed. */
#ifndef MT_HEAP_MLOCKALL_H
#define MT_HEAP_MLOCKALL_H

#include <stdbool.h>

/* Whether an object of the process imports mlockall. A program that finds it by dlsym is not seen.
 * At the first allocation, by one thread; walks the loader's list of objects, allocates nothing,
 * keeps errno. */
bool mt_mlockall_is_imported(void);

#endif
