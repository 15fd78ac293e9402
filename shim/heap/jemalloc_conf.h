/* heap/jemalloc_conf.h -- composes the embedded jemalloc's settings, checks what it was built for,
 * and keeps what jemalloc says of both until the log is open. Owns that text and the size of a
 * page. Takes no lock of the shim. */
#ifndef MT_HEAP_JEMALLOC_CONF_H
#define MT_HEAP_JEMALLOC_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"

/* ---- the settings: pure but for reading environ ---- */

/* Ours, then MALLOC_ARENA_MAX, then MT_PROF, then what a MALLOC_CONF meant for a stock jemalloc
 * holds (without decay, background_thread and abort_conf), then MT_MALLOC_CONF; later keys win.
 * Whole pairs only: what does not fit is left out. */
void mt_jemalloc_conf(const struct mt_config *config, char *out, size_t out_bytes);

/* ---- whether it knows the names that the shim asks for, and how large its pages are ---- */

/* Once, by the thread that starts jemalloc, after its first allocation. Returns NULL if it fits,
 * otherwise the reason, in memory that is never freed. A name that cannot be looked up for want of
 * memory fits. */
const char *mt_jemalloc_check(void);

/* Returns the unit in which jemalloc counts pages, in bytes: those that it was built for, which may
 * be larger than the kernel's (64 KiB on Debian's aarch64). The kernel's before the check. Any
 * thread. */
uint64_t mt_jemalloc_page_bytes(void);

/* ---- its messages ---- */

/* A setting that it does not know, memory that the kernel refused, or statistics that the program
 * requested. jemalloc writes them with its locks held, and MT_LOG may be on a slow disk. So
 * messages of its initialisation are kept and logged afterwards; later ones go to stderr alone,
 * even if MT_LOG is set. */

/* jemalloc's malloc_message. Any thread, also inside jemalloc. */
void mt_jemalloc_message(void *unused, const char *text);

/* Before jemalloc begins; its settings are kept. And after: what was kept goes to the log. One
 * thread, no lock held. */
void mt_jemalloc_message_start(const char *given);
void mt_jemalloc_message_begun(void);

/* Returns whether jemalloc has said, since the start, that it was built for smaller pages than the
 * kernel's. The same thread. */
bool mt_jemalloc_message_refuses_pages(void);

#endif
