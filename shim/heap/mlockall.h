/* heap/mlockall.h -- programs that call mlockall(2), such as mysqld and memcached. The kernel then
 * locks all mappings, and jemalloc maps more than it hands out: 18 MB before the first block, later
 * up to 60 % more than the program holds. Within the kernel's default limit of 8 MB the call would
 * fail; near a memory limit the process would be killed. */
#ifndef MT_HEAP_MLOCKALL_H
#define MT_HEAP_MLOCKALL_H

#include <stdbool.h>

/* Returns whether a loaded object imports mlockall. A program that finds it by dlsym is not
 * noticed. Iterates over the loaded objects under the gate of sys/loader.h. Any thread. Allocates
 * nothing, keeps errno. */
bool mt_mlockall_is_imported(void);

#endif
