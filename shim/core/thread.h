/* core/thread.h -- how a thread of ours is started: once, detached, all signals blocked, room for
 * its beginnings. It runs where and as the process did when it was loaded, not as whichever thread
 * of the program starts it: CPUs, policy and nice value are those of mt_thread_init as far as the
 * kernel allows; never a real-time policy. Allocates (pthread_create): never from inside an
 * allocator, a driver call or dlsym. Keeps errno. */
#ifndef MT_CORE_THREAD_H
#define MT_CORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>

/* Zero: none has been started. */
struct mt_thread {
	_Atomic int state;
	void *(*run)(void *); /* written by the starter before the thread begins */
};

/* Before any is started, where the loader may be asked: how much of a stack is not for its thread,
 * and on which CPUs and by which policy the caller runs. */
void mt_thread_init(void);

/* Once, from whatever thread; nothing when it runs. False when it could not be had, or another
 * thread is just starting it: a later call tries again. */
bool mt_thread_start(struct mt_thread *thread, void *(*run)(void *), size_t stack_bytes);

bool mt_thread_is_running(const struct mt_thread *thread);

/* In a forked child, which has none of its parent's threads; and by the thread, as the last that it
 * does. */
void mt_thread_reset(struct mt_thread *thread);

/* Whether there is address space left for a thread's beginnings. */
bool mt_thread_has_address_space(void);

/* The calling thread is one of ours, from now on; and whether it is. */
void mt_thread_mark_ours(void);
bool mt_thread_is_ours(void);

#endif
