/* core/main_exit.h -- ends a process whose main thread ended by pthread_exit. libc ends a process
 * with its last thread, and the shim's threads count. If the main thread is the program's only one,
 * the worker ends, and libc runs the exit handlers on the main thread. Otherwise one more thread
 * waits until only threads of the shim are left, and then calls exit(0) as libc does. If it cannot
 * count the threads, the shim's threads end instead, and libc ends the process itself. So a program
 * that would go on is never ended. Any thread may call. Owns that thread. Takes no lock. A main
 * thread that makes the exit system call, or that a seccomp filter kills, is handled by
 * core/worker.c: no exit handler runs then. */
#ifndef MT_CORE_MAIN_EXIT_H
#define MT_CORE_MAIN_EXIT_H

#include <stdbool.h>
#include <stdint.h>

/* Ends the worker or starts the waiting thread. Called once, on the main thread while it ends.
 * Waits up to 2 s for the worker's end. Never call it inside the allocator. */
void mt_main_exit_handle(void);

/* Tells whether the end of the main thread will be noticed: heap/account.c owns the key destructor
 * for it. While it is not watched the shim starts no thread. */
void mt_main_exit_note_watched(bool watched);
bool mt_main_exit_is_watched(void);

/* Returns how many of the process's threads belong to the shim. */
uint64_t mt_main_exit_own_threads(void);

/* Forgets the thread in a forked child, where it does not exist. */
void mt_main_exit_fork_child(void);

#endif
