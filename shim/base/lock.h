/* base/lock.h -- a lock of one word: spins a little, then sleeps in a futex. No allocation, no owner, no recursion.
 * A zeroed struct is an unlocked lock, so that a forked child can make one anew. Not for signal handlers. */
#ifndef MT_LOCK_H
#define MT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct mt_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody sleeps */
};

void mt_lock_take_slow(struct mt_lock *lock);
void mt_lock_wake(struct mt_lock *lock);

static inline void mt_lock_take(struct mt_lock *lock)
{
	uint32_t expected = 0;

	/* acquire: pairs with the release in mt_lock_drop */
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1, memory_order_acquire,
						     memory_order_relaxed))
		mt_lock_take_slow(lock);
}

static inline int mt_lock_try(struct mt_lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void mt_lock_drop(struct mt_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		mt_lock_wake(lock);
}

/* In a forked child: the holder may not exist any more. */
static inline void mt_lock_reset(struct mt_lock *lock)
{
	atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

#endif
