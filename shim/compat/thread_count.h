/* compat/thread_count.h -- wraps fopen to hide the shim's threads from Python's check of
 * num_threads after a fork. Any thread may call. Owns the addresses of the next functions. Takes no
 * lock. */
#ifndef MT_COMPAT_THREAD_COUNT_H
#define MT_COMPAT_THREAD_COUNT_H

/* Finds the next functions in line. Called once, from the constructor. */
void mt_thread_count_start(void);

/* Notes a fork, in the parent and in the child, on the thread that called it. */
void mt_thread_count_note_fork(void);

#endif
