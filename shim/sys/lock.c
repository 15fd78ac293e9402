#include "sys/lock.h"

#include <errno.h>

#include "sys/os.h"
#include "sys/raw_clone.h"

/* No wake of ours is ever lost but where the kernel comes to refuse it: a sandbox that is entered
 * while somebody sleeps. */
#define LOST_WAKE_NS (100 * MT_NS_PER_MS)
/* no lock of ours is held for so many in a process that lives */
#define RAW_CLONE_WAITS 10

static int try_once(struct mt_lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

void mt_lock_take_slow(struct mt_lock *lock)
{
	int waits = 0;

	for (int spin = 0; spin < 100; spin++) {
		if (try_once(lock))
			return;
		mt_os_relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		int answer = mt_os_futex_wait(&lock->word, 2, LOST_WAKE_NS, MT_FUTEX_PRIVATE);

		/* Its holder stayed behind in the process that this one is a bare copy of: it is
		 * ours, and marked as held. */
		if (answer == ETIMEDOUT && ++waits >= RAW_CLONE_WAITS && mt_raw_clone_is_child())
			return;
	}
}

bool mt_lock_take_within(struct mt_lock *lock, uint64_t span_ns)
{
	uint64_t until = mt_os_now_ns() + span_ns;
	uint64_t now;

	/* 2, since others may sleep too; who has it so and drops it wakes nobody, at worst. */
	while (!try_once(lock) &&
	       atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		now = mt_os_now_ns();
		if (now >= until)
			return false;
		(void)mt_os_futex_wait(&lock->word, 2, until - now, MT_FUTEX_PRIVATE);
	}
	mt_lock_check_take(lock, lock->rank);
	mt_lock_check_taken(lock);
	return true;
}

void mt_lock_wake(struct mt_lock *lock)
{
	mt_os_futex_wake(&lock->word, 1, MT_FUTEX_PRIVATE);
}

#define HAND_OVER_NAPS 20
#define HAND_OVER_NS   (50 * 1000ull)

void mt_lock_hand_over(struct mt_lock *lock)
{
	_Atomic uint32_t nobody = 0;
	/* A hint, no ordering: 2 is "somebody sleeps". */
	int is_awaited = atomic_load_explicit(&lock->word, memory_order_relaxed) == 2;

	mt_lock_drop(lock);
	for (int nap = 0; is_awaited && nap < HAND_OVER_NAPS; nap++) {
		(void)mt_os_futex_wait(&nobody, 0, HAND_OVER_NS, MT_FUTEX_PRIVATE);
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) != 0)
			break;
	}
}
