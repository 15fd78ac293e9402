/* core/main_exit.h -- a program whose main thread has ended by pthread_exit. libc ends a process
 * with its last thread, and ours would count as one: so one more thread waits until nobody else is
 * left, and does what libc would have done. Where the threads cannot be counted (no /proc, no
 * descriptor to be had) ours end instead, and libc does its own counting: a program that would go
 * on is never ended, and one that would end does. Any thread; once. A main thread that makes the
 * exit system call by itself, or that a seccomp filter kills, is another matter: no handler of the
 * program's end runs then, and the kernel ends the process with its last thread. There the worker
 * leaves (worker.c). */
#ifndef MT_CORE_MAIN_EXIT_H
#define MT_CORE_MAIN_EXIT_H

#include <stdbool.h>
#include <stdint.h>

/* The main thread has ended. Starts a thread: never from inside the allocator. */
void mt_main_exit_begin(void);

/* Whether nobody is left, by the text of /proc/self/stat and the number of our threads before it
 * was read. */
bool mt_main_exit_is_last(const char *stat, uint64_t own_threads);

/* For the worker, once the main thread has ended past libc: where no thread of the program's is
 * left it does not return, and the process ends by the exit status or the signal that the main
 * thread has ended by. */
void mt_main_exit_follow_main(void);

/* How many threads of ours the kernel counts in this process. */
uint64_t mt_main_exit_own_threads(void);

/* In a child, which has no such thread. */
void mt_main_exit_fork_child(void);

#endif
