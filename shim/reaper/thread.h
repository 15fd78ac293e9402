/* reaper/thread.h -- how a thread of ours is started: once, detached, all signals blocked, no real-time policy inherited, room
 * for its beginnings. Allocates (pthread_create): never from inside an allocator, a driver call or dlsym. Keeps errno. */
#ifndef MT_THREAD_H
#define MT_THREAD_H

#include <stdbool.h>
#include <stddef.h>

/* Zero: none has been started. */
struct mt_thread {
	_Atomic int state;
};

/* Before any is started, where the loader may be asked: how much of a stack is not for its thread. */
void mt_thread_learn(void);

/* Once, from whatever thread; nothing when it runs. False when it could not be had, or another thread is just starting it: a
 * later call tries again. */
bool mt_thread_start(struct mt_thread *thread, void *(*run)(void *), size_t stack_bytes);

bool mt_thread_runs(const struct mt_thread *thread);

/* In a forked child, which has none of its parent's threads; and by the thread, as the last that it does. */
void mt_thread_forget(struct mt_thread *thread);

/* Whether there is address space left for a thread's beginnings. */
bool mt_thread_has_room(void);

#endif
