/* core/shared_pages.h -- whether this process shares pages with forked processes. Python's
 * collector writes to the header of each object, and the kernel copies a shared page at the first
 * write: a collection would then use more memory, not less. Owns a count of forks and the kernel's
 * last reply. Any thread may call. Takes no lock. */
#ifndef MT_CORE_SHARED_PAGES_H
#define MT_CORE_SHARED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define MT_SHARED_PAGES_MAX_BYTES (2u << 20) /* sharing less is ignored */

/* Returns whether MT_SHARED_PAGES_MAX_BYTES or less are shared. Asks the kernel after a fork, and
 * keeps a positive reply until the next fork. False if the kernel cannot tell. Opens a file. */
bool mt_shared_pages_are_few(void);

/* As mt_shared_pages_are_few, but never asks the kernel: false after a fork until the other
 * function has asked. */
bool mt_shared_pages_are_known_few(void);

/* Returns the number of forks so far, including the one that made this process. Each fork counts
 * once before and once after it. A reply of mt_shared_pages_are_few is valid while this is
 * equal. */
uint32_t mt_shared_pages_forks(void);

/* Counts a fork: called before it, and after it in parent and child. Async-signal-safe. */
void mt_shared_pages_note_fork(void);

#endif
