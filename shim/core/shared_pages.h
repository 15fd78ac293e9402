/* core/shared_pages.h -- whether pages of this process are shared with forked processes. A collection
 * of Python's garbage writes to the header of each object, and the kernel copies a shared page when
 * it is written to: a cleanup must not make memory more. A process that has never forked nor was
 * forked shares nothing. Any thread; no lock. */
#ifndef MT_CORE_SHARED_PAGES_H
#define MT_CORE_SHARED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define MT_SHARED_PAGES_MAX_BYTES (2u << 20) /* bytes: next to nothing */

/* Whether MT_SHARED_PAGES_MAX_BYTES bytes or less are shared now. The kernel is asked after a fork, and
 * its reply stands until the next one. False where the kernel cannot tell. Opens a file. */
bool mt_shared_pages_are_few(void);

/* The same without asking the kernel: false from a fork on until it has been asked. */
bool mt_shared_pages_are_known_few(void);

/* Forks of this process so far, its own birth by fork included; each counts before and after. A reply
 * of mt_shared_pages_are_few stands while this number is the same. */
uint32_t mt_shared_pages_forks(void);

/* Before a fork, and after it in the parent and in the child. Async-signal-safe. */
void mt_shared_pages_note_fork(void);

#endif
