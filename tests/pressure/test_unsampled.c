/* test_unsampled.c -- pressure/reclaim: growth that no look has seen, and waiting for a look. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "sys/os.h"
#include "pressure/pressure_internal.h"

#define MB ((int64_t)MT_MIB)

static unsigned wakes;

static void wake(void)
{
	wakes++;
}

static void look(void)
{
	mt_reclaim_unsampled_begin_sample();
	mt_reclaim_unsampled_end_sample();
}

static void note(int64_t live_mb)
{
	mt_reclaim_unsampled_add(live_mb * MB, 4 * MB);
}

Test(unseen, every_rise_since_the_look_counts)
{
	note(140);
	look();
	note(160);
	note(3);

	note(90);

	cr_assert_eq(mt_reclaim_unsampled_bytes(), (20 + 87) * MB);
}

Test(unseen, memory_that_is_turned_over_does_not)
{
	note(20);
	look();

	for (int i = 0; i < 100; i++)
		note(20 - i % 4);

	cr_assert_eq(mt_reclaim_unsampled_bytes(), 0);
}

Test(unseen, a_rise_before_the_look_began_is_seen)
{
	note(10);
	look();
	cr_assert_eq(mt_reclaim_unsampled_bytes(), 0);

	note(30);
	mt_reclaim_unsampled_begin_sample();
	note(70);
	mt_reclaim_unsampled_end_sample();

	cr_assert_eq(mt_reclaim_unsampled_bytes(), 40 * MB, "while it measured is not");
}

Test(unseen, memory_that_was_returned_makes_all_seen)
{
	look();
	note(90);

	mt_reclaim_unsampled_reset(100 * MB);
	note(110);

	cr_assert_eq(mt_reclaim_unsampled_bytes(), 10 * MB);
}

Test(unseen, a_thread_whose_wait_timed_out_does_not_wait_again_before_a_sample)
{
	uint64_t began;

	wakes = 0;
	cr_assert_not(mt_reclaim_unsampled_await_sample(wake, MT_NS_PER_MS));
	began = mt_os_now_ns();
	cr_assert_not(mt_reclaim_unsampled_await_sample(wake, 10 * MT_NS_PER_S));
	cr_assert_lt(mt_os_now_ns() - began, MT_NS_PER_S);
	cr_assert_eq(wakes, 1);

	look();
	cr_assert_not(mt_reclaim_unsampled_await_sample(wake, MT_NS_PER_MS));
	cr_assert_eq(wakes, 2);
}

static void *look_late(void *unused)
{
	(void)unused;
	(void)usleep(20000);
	look();
	return NULL;
}

Test(unseen, a_look_ends_the_wait)
{
	uint64_t began = mt_os_now_ns();
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, look_late, NULL), 0);
	cr_assert(mt_reclaim_unsampled_await_sample(wake, 10 * MT_NS_PER_S));
	cr_assert_lt(mt_os_now_ns() - began, 5 * MT_NS_PER_S);
	pthread_join(thread, NULL);
}
