/* test_unseen.c -- reaper/unseen: growth that no look has seen, and waiting for a look. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "base/os.h"
#include "reaper/unseen.h"

#define MB ((int64_t)MT_MIB)

static unsigned wakes;

static void wake(void)
{
	wakes++;
}

static void look(void)
{
	mt_unseen_begin_look();
	mt_unseen_end_look();
}

Test(unseen, without_a_figure_nothing_is_unseen)
{
	look();

	cr_assert_eq(mt_unseen_bytes(100 * MB), 0);
}

Test(unseen, growth_counts_from_the_lowest_point_since_the_look)
{
	look();
	mt_unseen_note(160 * MB, 0);
	mt_unseen_note(3 * MB, 0);

	mt_unseen_note(90 * MB, 0);

	cr_assert_eq(mt_unseen_bytes(90 * MB), 87 * MB);
}

Test(unseen, what_was_allocated_between_two_notes_may_have_followed_a_free)
{
	look();

	mt_unseen_note(100 * MB, 30 * MB);

	cr_assert_eq(mt_unseen_bytes(100 * MB), 30 * MB);
}

Test(unseen, a_low_point_before_the_look_began_is_seen)
{
	mt_unseen_note(10 * MB, 0);
	mt_unseen_begin_look();
	mt_unseen_note(100 * MB, 0);
	mt_unseen_end_look();

	cr_assert_eq(mt_unseen_bytes(120 * MB), 20 * MB);
}

Test(unseen, a_low_point_while_the_look_measures_is_not)
{
	mt_unseen_begin_look();
	mt_unseen_note(10 * MB, 0);
	mt_unseen_end_look();

	cr_assert_eq(mt_unseen_bytes(120 * MB), 110 * MB);
}

Test(unseen, memory_that_was_returned_makes_all_seen)
{
	look();
	mt_unseen_note(10 * MB, 0);

	mt_unseen_forget(100 * MB);

	cr_assert_eq(mt_unseen_bytes(110 * MB), 10 * MB);
}

Test(unseen, who_waits_in_vain_does_not_wait_again_before_a_look)
{
	uint64_t began;

	wakes = 0;
	cr_assert_not(mt_unseen_await_look(wake, MT_NS_PER_MS));
	began = mt_os_now_ns();
	cr_assert_not(mt_unseen_await_look(wake, 10 * MT_NS_PER_S));
	cr_assert_lt(mt_os_now_ns() - began, MT_NS_PER_S);
	cr_assert_eq(wakes, 1);

	look();
	cr_assert_not(mt_unseen_await_look(wake, MT_NS_PER_MS));
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
	cr_assert(mt_unseen_await_look(wake, 10 * MT_NS_PER_S));
	cr_assert_lt(mt_os_now_ns() - began, 5 * MT_NS_PER_S);
	pthread_join(thread, NULL);
}
