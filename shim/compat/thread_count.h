/* compat/thread_count.h -- how many threads a program finds in itself after a fork. Rank 5. */
#ifndef MT_COMPAT_THREAD_COUNT_H
#define MT_COMPAT_THREAD_COUNT_H

/* Once, from the constructor: finds the functions behind ours. */
void mt_thread_count_start(void);

/* After a fork, in the parent and in the child, on the thread that has called it. */
void mt_thread_count_note_fork(void);

#endif
