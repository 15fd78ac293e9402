/* sys/lock.h -- a lock of one word: spins a little, then sleeps in a futex. No allocation, no
 * owner, no recursion. A zeroed struct is an unlocked lock, so that a forked child can make one
 * again; in debug builds it carries its rank too, and is checked at each step (sys/lock_check.h).
 * Not for signal handlers. */
#ifndef MT_SYS_LOCK_H
#define MT_SYS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/lock_check.h"

struct mt_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
#ifdef MT_DEBUG
	uint32_t rank; /* enum mt_lock_rank; written before anybody can take the lock */
#endif
};

#ifndef MT_DEBUG
_Static_assert(sizeof(struct mt_lock) == 4, "a release build pays nothing for the ranks");
#endif

/* static struct mt_lock lock = MT_LOCK(publish); the name as in lock_ranks.def. */
#ifdef MT_DEBUG
#define MT_LOCK(name)                                                                              \
	{                                                                                          \
		.rank = MT_RANK_##name                                                             \
	}
#else
#define MT_LOCK(name)                                                                              \
	{                                                                                          \
		0                                                                                  \
	}
#endif

void mt_lock_lock_slow(struct mt_lock *lock);
void mt_lock_wake(struct mt_lock *lock);

/* For who would rather go without it than wait for longer. False: it is not held. */
bool mt_lock_lock_within(struct mt_lock *lock, uint64_t span_ns);

/* For one that was zeroed, among others of its kind. */
static inline void mt_lock_set_rank(struct mt_lock *lock, enum mt_lock_rank rank)
{
#ifdef MT_DEBUG
	lock->rank = rank;
#else
	(void)lock;
	(void)rank;
#endif
}

static inline void mt_lock_lock(struct mt_lock *lock)
{
	uint32_t expected = 0;

	mt_lock_check_lock(lock, lock->rank);
	/* acquire: pairs with the release in mt_lock_unlock */
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						     memory_order_acquire, memory_order_relaxed))
		mt_lock_lock_slow(lock);
	mt_lock_check_locked(lock);
}

static inline void mt_lock_unlock(struct mt_lock *lock)
{
	mt_lock_check_unlock(lock, lock->rank);
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		mt_lock_wake(lock);
}

/* For who takes it again at once: drops it, and gives whoever sleeps for it the time to get it
 * first. Some 60 us where anybody does; nothing else. No other lock is held that a program's
 * threads wait for. */
void mt_lock_unlock_and_yield(struct mt_lock *lock);

/* In a forked child: the holder may not exist any more. */
static inline void mt_lock_reset(struct mt_lock *lock)
{
	mt_lock_check_reset(lock);
	atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

#endif
