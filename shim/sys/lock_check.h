/* sys/lock_check.h -- debug builds: what each thread holds, checked against sys/lock_ranks.def at
 * every take, drop and call of other people's code. What breaks the order ends the process by
 * SIGABRT with one line that names both locks, before it can hang. In release builds (without
 * MT_DEBUG) it is nothing. Any thread, signal handlers, forked children; never allocates. */
#ifndef MT_SYS_LOCK_CHECK_H
#define MT_SYS_LOCK_CHECK_H

#include <stdint.h>

#include "sys/lock_ranks.def"

enum mt_lock_rank {
	MT_RANK_NONE,
#define X(name, held, protects) MT_RANK_##name,
	MT_LOCK_RANKS(X) MT_RANK_COUNT
#undef X
};

#ifdef MT_DEBUG

/* Before this thread waits for the lock, after it has got it, before it drops it. */
void mt_lock_check_lock(const void *lock, uint32_t rank);
void mt_lock_check_locked(const void *lock);
void mt_lock_check_unlock(const void *lock, uint32_t rank);

/* In a forked child: it is held by nobody any more. */
void mt_lock_check_reset(const void *lock);

/* The same for what is a lock without being a struct mt_lock. */
void mt_lock_check_enter(enum mt_lock_rank rank);
void mt_lock_check_leave(enum mt_lock_rank rank);

/* Other people's code is about to run: nothing is held that may not be (OURS in the table). */
void mt_lock_check_foreign_call(const char *what);

/* This thread is about to wait for others: nothing at all is held. */
void mt_lock_check_wait(const char *what);

#else

#define mt_lock_check_lock(lock, rank)   ((void)0)
#define mt_lock_check_locked(lock)       ((void)0)
#define mt_lock_check_unlock(lock, rank) ((void)0)
#define mt_lock_check_reset(lock)        ((void)0)
#define mt_lock_check_enter(rank)        ((void)0)
#define mt_lock_check_leave(rank)        ((void)0)
#define mt_lock_check_foreign_call(what) ((void)0)
#define mt_lock_check_wait(what)         ((void)0)

#endif

#endif
