/* heap/jemalloc_message.h -- jemalloc's messages: a setting that it does not know, memory that the
 * kernel refused, or statistics that the program requested. jemalloc writes them with its locks
 * held, and MT_LOG may be on a slow disk. So messages of its initialisation are kept and logged
 * afterwards; later ones go to stderr alone, even where MT_LOG is set. */
#ifndef MT_HEAP_JEMALLOC_MESSAGE_H
#define MT_HEAP_JEMALLOC_MESSAGE_H

#include <stdbool.h>

/* jemalloc's malloc_message. Any thread, also inside jemalloc. */
void mt_jemalloc_message(void *unused, const char *text);

/* Before jemalloc begins; conf is kept. And after: what was kept goes to the log. One thread, no
 * lock held. */
void mt_jemalloc_message_start(const char *conf);
void mt_jemalloc_message_begun(void);

/* Returns whether jemalloc has said, since the start, that it was built for smaller pages than the
 * kernel's. The same thread. */
bool mt_jemalloc_message_refuses_pages(void);

#endif
