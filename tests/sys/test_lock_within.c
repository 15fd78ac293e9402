/* test_lock_within.c -- sys/lock's mt_lock_lock_within: a lock that is waited for no longer than
 * that. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sys/lock.h"
#include "sys/os.h"

static struct mt_lock lock = MT_LOCK(purge);
static atomic_int holds; /* 1: held by the other thread; 2: it may go */

static void *hold(void *span_ns)
{
	_Atomic uint32_t nobody = 0;

	mt_lock_lock(&lock);
	atomic_store(&holds, 1);
	if (span_ns)
		(void)mt_os_futex_wait(&nobody, 0, *(uint64_t *)span_ns, MT_FUTEX_PRIVATE);
	while (!span_ns && atomic_load(&holds) != 2)
		mt_os_relax();
	mt_lock_unlock(&lock);
	return NULL;
}

static pthread_t held_by_another(uint64_t *span_ns)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, hold, span_ns), 0);
	while (atomic_load(&holds) != 1)
		mt_os_relax();
	return thread;
}

Test(lock_within, is_had_at_once_where_it_is_free)
{
	cr_assert(mt_lock_lock_within(&lock, 0));
	mt_lock_unlock(&lock);
	mt_lock_lock(&lock);
	mt_lock_unlock(&lock);
}

Test(lock_within, is_given_up_when_the_time_is_over_and_does_no_harm_to_who_holds_it)
{
	pthread_t thread = held_by_another(NULL);
	uint64_t began = mt_os_now_ns();

	cr_expect_not(mt_lock_lock_within(&lock, 50 * MT_NS_PER_MS));
	cr_expect_geq(mt_os_now_ns() - began, 50 * MT_NS_PER_MS);
	atomic_store(&holds, 2);
	pthread_join(thread, NULL);
	cr_assert(mt_lock_lock_within(&lock, 0));
	mt_lock_unlock(&lock);
}

Test(lock_within, is_had_when_it_is_dropped_in_time)
{
	uint64_t span_ns = 50 * MT_NS_PER_MS;
	pthread_t thread = held_by_another(&span_ns);

	cr_assert(mt_lock_lock_within(&lock, 20 * MT_NS_PER_S));
	mt_lock_unlock(&lock);
	pthread_join(thread, NULL);
}
