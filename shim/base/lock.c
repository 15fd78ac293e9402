#include "base/lock.h"

#include "base/os.h"

void mt_lock_take_slow(struct mt_lock *lock)
{
	for (int spin = 0; spin < 100; spin++) {
		if (mt_lock_try(lock))
			return;
		mt_os_relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		(void)mt_os_futex_wait(&lock->word, 2, UINT64_MAX, MT_FUTEX_PRIVATE);
}

void mt_lock_wake(struct mt_lock *lock)
{
	mt_os_futex_wake(&lock->word, 1, MT_FUTEX_PRIVATE);
}
