/* sys/lock_check.h -- checks the lock order in debug builds. Owns a list of the locks that each
 * thread holds, and compares it with sys/lock_ranks.def at every lock, unlock and call of foreign
 * code. A violation writes one line that names both locks and aborts the process (SIGABRT). Any
 * thread, signal handler and forked child may call. Takes no lock. Never allocates. In release
 * builds (without MT_DEBUG) every call is empty. */
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

/* Called before a thread waits for a lock, after it has taken it, and before it releases it. */
void mt_lock_check_lock(const void *lock, uint32_t rank);
void mt_lock_check_locked(const void *lock);
void mt_lock_check_unlock(const void *lock, uint32_t rank);

/* Removes a lock from the calling thread's list, in a forked child that resets it. */
void mt_lock_check_reset(const void *lock);

/* As lock and unlock, for a gate that is not a struct mt_lock. */
void mt_lock_check_enter(enum mt_lock_rank rank);
void mt_lock_check_leave(enum mt_lock_rank rank);

/* Checks before foreign code runs that the thread holds no lock of kind OURS. what: the callee, for
 * the message. */
void mt_lock_check_foreign_call(const char *what);

/* Checks before the thread waits for another one that it holds no lock. what: the event it waits
 * for, for the message. */
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
