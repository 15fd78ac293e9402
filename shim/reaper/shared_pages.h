/* reaper/shared_pages.h -- whether a collection of Python's garbage may run. It writes to the header of each object, and the
 * kernel copies a page that is shared with a forked process when it is written to: a cleanup must not make memory more. A
 * process that has never forked nor was forked shares nothing. In all others the kernel is asked, and its reply that nothing
 * is shared stands until the next fork: only a fork makes pages shared. Any thread; no lock; calls nothing but the kernel. */
#ifndef MT_SHARED_PAGES_H
#define MT_SHARED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether next to nothing is shared now, MT_SHARED_PAGES_MOST or less. False where the kernel cannot tell. */
bool mt_shared_pages_are_few(void);
#define MT_SHARED_PAGES_MOST (2u << 20) /* bytes */

/* Forks in this process and its own birth by fork so far. A reply of mt_shared_pages_are_few stands while it is the same. */
uint32_t mt_shared_pages_forks(void);

/* In the parent and in the child, after a fork. */
void mt_shared_pages_note_fork(void);

#endif
