/* core/rights.h -- compares the credentials of two threads. Each thread has its own ids,
 * capabilities and seccomp filter. libc's setuid changes the ids of every thread, and aborts the
 * process if the kernel refuses one thread what it grants another. Any thread may call. Takes no
 * lock, owns no state, keeps errno. */
#ifndef MT_CORE_RIGHTS_H
#define MT_CORE_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether `thread` may change its ids exactly as the calling thread may. False also if
 * that is unknown: no /proc, a very long list of groups, or a seccomp filter. Reads two files of
 * /proc. */
bool mt_rights_are_equal(pid_t thread);

/* The same for two texts of /proc/PID/task/TID/status. Pure. */
bool mt_rights_compare(const char *status, const char *other);

#endif
