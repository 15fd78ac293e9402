/* core/rights.h -- whether another thread of this process may change its ids as the caller may.
 * Each thread has ids, capabilities and a seccomp filter of its own, and libc, which changes all
 * threads' ids, ends the process where one is refused what another is not. Two reads of /proc; any
 * thread, no lock, keeps errno. */
#ifndef MT_CORE_RIGHTS_H
#define MT_CORE_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

/* False: it may not, or nobody can tell (no /proc, a list of groups longer than our room, a
 * filter). */
bool mt_rights_are_equal(pid_t thread);

/* The same of what two /proc/.../status say. Pure. */
bool mt_rights_compare(const char *status, const char *other);

#endif
