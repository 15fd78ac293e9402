/* core/thread.h -- starts the shim's threads: detached, with all signals blocked. A thread gets the
 * CPU affinity, scheduling policy and nice value that the process had when the library was loaded,
 * as far as the kernel allows. It never gets those of the program's thread that starts it, and
 * never a real-time policy. Owns those values. Any thread may call. Takes no lock. Keeps errno.
 * mt_thread_start allocates (pthread_create): never call it inside an allocator, a driver call or
 * dlsym. */
#ifndef MT_CORE_THREAD_H
#define MT_CORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* All 0: not started. */
struct mt_thread {
	_Atomic int state;
	void *(*run)(void *); /* written before the thread begins */
};

/* Reads the calling thread's scheduling, and the stack bytes that thread-local storage needs.
 * Called once, before the first mt_thread_start. Calls the loader. */
void mt_thread_init(void);

/* Starts a thread that calls run(NULL); does nothing if it runs. stack_bytes: stack for run,
 * without thread-local storage. Returns false if the system refuses, or another thread is
 * starting it: call again later. */
bool mt_thread_start(struct mt_thread *thread, void *(*run)(void *), size_t stack_bytes);

bool mt_thread_is_running(const struct mt_thread *thread);

/* Marks the thread as not started. Called in a forked child, and by the thread itself as its last
 * step. */
void mt_thread_reset(struct mt_thread *thread);

/* Returns whether there is enough address space for a new thread's first allocations. */
bool mt_thread_has_address_space(void);

/* Marks the calling thread as a thread of the shim; returns whether it is one. */
void mt_thread_mark_ours(void);
bool mt_thread_is_ours(void);

/* ---- rights ---- */

/* Compares the credentials of two threads. Each thread has its own ids, capabilities and seccomp
 * filter. libc's setuid changes the ids of every thread, and aborts the process if the kernel
 * refuses one thread what it grants another. Any thread may call. Takes no lock, owns no state,
 * keeps errno. */

/* Returns whether `thread` may change its ids exactly as the calling thread may. False also if
 * that is unknown: no /proc, a very long list of groups, or a seccomp filter. Reads two files of
 * /proc. */
bool mt_thread_rights_are_equal(pid_t thread);

#endif
