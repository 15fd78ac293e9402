/* reaper/last.h -- a program whose main thread has ended by pthread_exit. libc ends a process with its last thread,
 * and ours would count as one: so one more thread waits until nobody else is left, and does what libc would have
 * done. Where the threads cannot be counted (no /proc, no descriptor to be had) ours end instead, and libc does its
 * own counting: a program that would go on is never ended, and one that would end does. Any thread; once. */
#ifndef MT_LAST_H
#define MT_LAST_H

#include <stdbool.h>
#include <stdint.h>

/* The main thread has ended. Starts a thread: never from inside the allocator. */
void mt_last_begin(void);

/* Whether nobody is left, by the text of /proc/self/stat and the number of our threads before it was read. */
bool mt_last_is_alone(const char *stat, uint64_t own_threads);

/* In a child, which has no such thread. */
void mt_last_fork_child(void);

#endif
