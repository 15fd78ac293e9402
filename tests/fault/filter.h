/* filter.h -- has the kernel refuse system calls, by a seccomp filter: for this thread and all that
 * it starts. */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>

/* spec: "EPERM:madvise,futex/5;ENOSYS:close_range". A number behind a stroke: only where the call's
 * command (the second argument of futex, the first of others) is just that. everywhere: in all
 * threads that are there, too. False: the spec makes no sense, or the kernel refuses filters. */
bool refuse(const char *spec, bool everywhere);

#endif
