/* heap/jemalloc_tell.h -- what jemalloc has to say: about a setting that it does not know, a
 * refusal of the kernel's, or the figures that were asked for. It says so with its locks held,
 * which fork and malloc wait for, and MT_LOG may be on a slow disk: so what it says when it begins
 * is kept until it has begun, and what it says later goes to stderr, also where there is an MT_LOG.
 */
#ifndef MT_HEAP_JEMALLOC_TELL_H
#define MT_HEAP_JEMALLOC_TELL_H

/* jemalloc's malloc_message. Any thread, also inside jemalloc. */
void mt_jemalloc_tell(void *unused, const char *text);

/* Before jemalloc begins; conf is kept. And after: what was kept goes to the log. One thread, no
 * lock held. */
void mt_jemalloc_tell_start(const char *conf);
void mt_jemalloc_tell_begun(void);

#endif
