/* sys/lock.h -- a mutex of one 32-bit word: it spins briefly, then sleeps on a futex. It has no
 * owner and no recursion. A zeroed struct is an unlocked lock, so a forked child can reset it.
 * Any thread may call. In debug builds each lock carries a rank, and the order is checked. Never
 * allocates. A signal handler may take only a lock that mt_lock_lock_noted takes elsewhere. */
#ifndef MT_SYS_LOCK_H
#define MT_SYS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/lock_ranks.def"

/* ---- the order ---- */

/* Checks the lock order in debug builds. Owns a list of the locks that each thread holds, and
 * compares it with sys/lock_ranks.def at every lock, unlock and call of foreign code. A violation
 * writes one line that names both locks and aborts the process (SIGABRT). Any thread, signal
 * handler and forked child may call. Takes no lock. Never allocates. In release builds (without
 * MT_DEBUG) every call is empty. */

enum mt_lock_rank {
	MT_RANK_NONE,
#define X(name, held, protects) MT_RANK_##name,
	MT_LOCK_RANKS(X)
#undef X
		MT_RANK_fork, /* no lock: see mt_lock_check_enter */
	MT_RANK_COUNT
};

#ifdef MT_DEBUG

/* Called before a thread waits for a lock, after it has taken it, and before it releases it. */
void mt_lock_check_lock(const void *lock, uint32_t rank);
void mt_lock_check_locked(const void *lock);
void mt_lock_check_unlock(const void *lock, uint32_t rank);

/* Removes a lock from the calling thread's list, in a forked child that resets it. */
void mt_lock_check_reset(const void *lock);

/* As lock and unlock, for a gate that is not a struct mt_lock. Between enter and leave of
 * MT_RANK_fork the thread forks, maybe in a signal handler. The order of what it takes there is
 * compared with nothing that the interrupted code holds: fork does not wait for the thread's own
 * locks (mt_lock_lock_noted), nor for long for a thread that waits for these. */
void mt_lock_check_enter(enum mt_lock_rank rank);
void mt_lock_check_leave(enum mt_lock_rank rank);

/* Checks before foreign code runs that the thread holds no lock of kind OURS or NOTED. what: the
 * callee, for the message. */
void mt_lock_check_foreign_call(const char *what);

/* Checks the same in an entry that the program calls, maybe in a handler that has interrupted the
 * holder of a lock of kind NOTED. */
void mt_lock_check_entry(const char *what);

/* Checks before the thread waits for another one that it holds no lock. what: the event it waits
 * for, for the message. */
void mt_lock_check_wait(const char *what);

/* For assertions: returns whether the calling thread holds a lock of this rank. */
bool mt_lock_is_held(enum mt_lock_rank rank);

#else

#define mt_lock_check_lock(lock, rank)   ((void)0)
#define mt_lock_check_locked(lock)       ((void)0)
#define mt_lock_check_unlock(lock, rank) ((void)0)
#define mt_lock_check_reset(lock)        ((void)0)
#define mt_lock_check_enter(rank)        ((void)0)
#define mt_lock_check_leave(rank)        ((void)0)
#define mt_lock_check_foreign_call(what) ((void)0)
#define mt_lock_check_entry(what)        ((void)0)
#define mt_lock_check_wait(what)         ((void)0)

#endif

/* ---- the lock ---- */

struct mt_lock {
	_Atomic uint32_t word; /* 0: unlocked; 1: locked; 2: locked, and a thread sleeps on it */
#ifdef MT_DEBUG
	uint32_t rank; /* enum mt_lock_rank; written before the lock is shared */
#endif
};

#ifndef MT_DEBUG
_Static_assert(sizeof(struct mt_lock) == 4, "a release build pays nothing for the ranks");
#endif

/* Initializer: static struct mt_lock lock = MT_LOCK(publish); name: of sys/lock_ranks.def. */
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

/* The contended paths of mt_lock_lock and mt_lock_unlock. */
void mt_lock_lock_slow(struct mt_lock *lock);
void mt_lock_wake(struct mt_lock *lock);

/* As mt_lock_lock, but waits up to span_ns. Returns false if the lock is not taken. */
bool mt_lock_lock_within(struct mt_lock *lock, uint64_t span_ns);

/* Sets the rank of a lock that lies in zeroed memory. */
static inline void mt_lock_set_rank(struct mt_lock *lock, enum mt_lock_rank rank)
{
#ifdef MT_DEBUG
	lock->rank = rank;
#else
	(void)lock;
	(void)rank;
#endif
}

/* Takes the lock; waits until it is free. */
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

/* Releases the lock and wakes one sleeping thread. */
static inline void mt_lock_unlock(struct mt_lock *lock)
{
	mt_lock_check_unlock(lock, lock->rank);
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		mt_lock_wake(lock);
}

/* Returns whether any thread holds the lock at this moment. */
static inline bool mt_lock_is_locked(const struct mt_lock *lock)
{
	return mt_load_relaxed(&lock->word) != 0;
}

/* Releases the lock. If a thread sleeps on it, gives that thread up to 1 ms to take it first, so
 * that a caller that locks again at once does not starve it. Call it with no other lock held that
 * threads of the program wait for. */
void mt_lock_unlock_and_yield(struct mt_lock *lock);

/* As mt_lock_lock and mt_lock_unlock, for a lock that fork takes: a signal handler that interrupts
 * the holder may fork. *is_ours, of the calling thread: it has the lock, or waits for it. Signals
 * are not blocked: a thread that unblocks them may take one that the kernel has given to another
 * thread. */
static inline void mt_lock_lock_noted(struct mt_lock *lock, bool *is_ours)
{
	*is_ours = true; /* first: a handler must not wait for the lock */
	mt_lock_lock(lock);
}

static inline void mt_lock_unlock_noted(struct mt_lock *lock, bool *is_ours)
{
	mt_lock_unlock(lock);
	*is_ours = false;
}

/* The prepare and parent steps of fork for such a lock. */
static inline void mt_lock_fork_prepare(struct mt_lock *lock, bool is_ours)
{
	if (!is_ours)
		mt_lock_lock(lock);
}

static inline void mt_lock_fork_parent(struct mt_lock *lock, bool is_ours)
{
	if (!is_ours)
		mt_lock_unlock(lock);
}

/* Unlocks in a forked child, where the thread that held the lock may not exist. */
static inline void mt_lock_reset(struct mt_lock *lock)
{
	mt_lock_check_reset(lock);
	mt_store_relaxed(&lock->word, 0);
}

/* The child step. A handler that forked may return to the code that has the lock, which unlocks it.
 */
static inline void mt_lock_fork_child(struct mt_lock *lock, bool is_ours)
{
	if (is_ours)
		mt_store_relaxed(&lock->word, 0);
	else
		mt_lock_reset(lock);
}

#endif
