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
void mt_main_exit_handle(void);

/* Whether the end of the main thread will be noticed. heap/account.c tells: it owns the key destructor
 * that sees it. While it is not watched no thread of ours is started. */
void mt_main_exit_note_watched(bool is_watched);
bool mt_main_exit_is_watched(void);

/* How many threads of ours the kernel counts in this process. */
uint64_t mt_main_exit_own_threads(void);

/* In a child, which has no such thread. */
void mt_main_exit_fork_child(void);

#endif
