#include "sys/lock.h"

#include <errno.h>

#include "sys/os.h"
#include "sys/raw_clone.h"

/* A wake-up is lost only if the kernel starts to refuse futexes: in a sandbox that the process
 * enters while a thread sleeps. */
#define LOST_WAKE_NS (100 * MT_NS_PER_MS)
/* no lock of the shim is held for so many waits in a live process */
#define RAW_CLONE_WAITS 10

static int try_once(struct mt_lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

void mt_lock_lock_slow(struct mt_lock *lock)
{
	int waits = 0;

	for (int spin = 0; spin < 100; spin++) {
		if (try_once(lock))
			return;
		mt_os_relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		int answer = mt_os_futex_wait(&lock->word, 2, LOST_WAKE_NS, MT_FUTEX_PRIVATE);

		/* The holder does not exist in this raw clone of its process: the caller has the
		 * lock, which is marked as taken. */
		if (answer == ETIMEDOUT && ++waits >= RAW_CLONE_WAITS && mt_raw_clone_is_child())
			return;
	}
}

bool mt_lock_lock_within(struct mt_lock *lock, uint64_t span_ns)
{
	uint64_t until = mt_os_now_ns() + span_ns;
	uint64_t now;

	/* 2, since other threads may sleep too; at worst the unlock then wakes no thread */
	while (!try_once(lock) &&
	       atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		now = mt_os_now_ns();
		if (now >= until)
			return false;
		(void)mt_os_futex_wait(&lock->word, 2, until - now, MT_FUTEX_PRIVATE);
	}
	mt_lock_check_lock(lock, lock->rank);
	mt_lock_check_locked(lock);
	return true;
}

void mt_lock_wake(struct mt_lock *lock)
{
	mt_os_futex_wake(&lock->word, 1, MT_FUTEX_PRIVATE);
}

#define YIELD_SLEEPS 20
#define YIELD_NS     (50 * 1000ull)

void mt_lock_unlock_and_yield(struct mt_lock *lock)
{
	/* A hint, no ordering: 2 means that a thread sleeps. */
	int is_awaited = atomic_load_explicit(&lock->word, memory_order_relaxed) == 2;

	mt_assert(mt_lock_is_locked(lock));
	mt_lock_unlock(lock);
	for (int sleeps = 0; is_awaited && sleeps < YIELD_SLEEPS; sleeps++) {
		mt_os_sleep_ns(YIELD_NS);
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) != 0)
			break;
	}
}
