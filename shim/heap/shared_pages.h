/* heap/shared_pages.h -- whether a collection of Python's garbage may run. It writes to the header
 * of each object, and the kernel copies a page that is shared with a forked process when it is
 * written to: a cleanup must not make memory more. A process that has never forked nor was forked
 * shares nothing. In all others the kernel is asked, and its reply that nothing is shared stands
 * until the next fork: only a fork makes pages shared. Any thread; no lock of ours. */
#ifndef MT_HEAP_SHARED_PAGES_H
#define MT_HEAP_SHARED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether next to nothing is shared now, MT_SHARED_PAGES_MOST or less. False where the kernel
 * cannot tell. */
bool mt_shared_pages_are_few(void);
#define MT_SHARED_PAGES_MOST (2u << 20) /* bytes */

/* The same without asking the kernel, which opens a file: false from a fork on until it has been
 * asked. */
bool mt_shared_pages_are_known_few(void);

/* Whether a purge would copy shared pages. glibc merges what lies in its fast bins before it
 * returns anything, and writes to each block; where its page is shared with forked processes the
 * kernel copies it. The program's own next allocation of 1 kB or more merges them, too: until then
 * nothing is purged. may_ask: the kernel may be asked, which opens a file; without it pages count
 * as shared from a fork on until it has been asked. */
bool mt_shared_pages_purge_copies(bool may_ask);

/* Forks in this process and its own birth by fork so far. A reply of mt_shared_pages_are_few stands
 * while it is the same. */
uint32_t mt_shared_pages_forks(void);

/* Before a fork, and after it in the parent and in the child. */
void mt_shared_pages_note_fork(void);

#endif
