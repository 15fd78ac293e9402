/* test_throttle.c -- reaper/throttle: what counts as growth, whom it rings, and who waits how long. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/os.h"
#include "reaper/bell.h"
#include "reaper/throttle.h"

#define MB      MT_MIB
#define SOON_NS (20 * MT_NS_PER_MS)
#define LEAP    (150 * MB)

#define LONG    "1000" /* ms, the longest there is; no test that passes waits for it to be over */
#define LATE_NS (500 * MT_NS_PER_MS)

/* Through the environment, as a program is told. */
static void begin(const char *wait_ms)
{
	char text[64];
	const char *environment[] = {text, NULL};

	snprintf(text, sizeof(text), "MT_PRESSURE_WAIT_MS=%s", wait_ms);
	mt_config_read(environment);
}

static uint32_t rung(void)
{
	return mt_bell_bits() & MT_BELL_GROWTH;
}

Test(throttle, counts_nobody_where_no_limit_is_known)
{
	cr_expect_not(mt_throttle_note(1000 * MB, 0));
	cr_expect_not(mt_throttle_has_rung());
	cr_expect_eq(mt_throttle_begin(), 0);
}

Test(throttle, rings_when_much_of_the_room_may_be_used_up)
{
	begin("0");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);

	cr_expect_not(mt_throttle_note(9 * MB, 0));
	cr_expect(mt_throttle_note(2 * MB, 0));
	cr_expect(mt_throttle_has_rung());
	mt_throttle_heed();
	cr_expect(rung());
	cr_expect_eq(mt_throttle_begin(), 11 * MB);
	cr_expect_not(mt_throttle_has_rung(), "a look begins, and growth is counted anew");
}

Test(throttle, takes_off_what_is_freed)
{
	mt_throttle_set(10 * MB, 100 * MB, LEAP);

	(void)mt_throttle_note(12 * MB, 0);
	cr_expect_not(mt_throttle_note(MB, 5 * MB));
	cr_expect(mt_throttle_note(3 * MB, 1 * MB));
}

Test(throttle, does_not_take_what_was_freed_before_for_room)
{
	mt_throttle_set(10 * MB, 100 * MB, LEAP);

	cr_expect(mt_throttle_note(12 * MB, 120 * MB), "the pages of the 120 MB are still there, and may serve others only");
}

Test(throttle, can_be_switched_off_again)
{
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	mt_throttle_off();
	cr_expect_not(mt_throttle_has_rung());
	cr_expect_not(mt_throttle_note(100 * MB, 0));
}

Test(throttle, takes_no_room_for_the_least_there_is)
{
	mt_throttle_set(0, 0, 0);
	cr_expect(mt_throttle_note(MB, 0), "nothing is left: each MB rings");
}

Test(throttle, never_makes_the_room_smaller_than_a_thread_tells_of)
{
	mt_throttle_set(1, 1, 1);

	cr_expect_not(mt_throttle_note(MB / 2, 0));
	cr_expect(mt_throttle_note(MB / 2, 0));
}

/* ---- waiting ---- */

static uint64_t heeded_ns(void)
{
	uint64_t began = mt_os_now_ns();

	mt_throttle_heed();
	return mt_os_now_ns() - began;
}

static _Atomic uint32_t heeding;

static void *heed_too(void *unused)
{
	(void)unused;
	atomic_fetch_add(&heeding, 1);
	mt_throttle_heed();
	return NULL;
}

/* As the reaper would, but never by itself. */
static void *look_soon(void *unused)
{
	(void)unused;
	while (!rung())
		usleep(1000);
	usleep(20000);
	(void)mt_throttle_begin();
	mt_throttle_release();
	return NULL;
}

Test(throttle, waits_where_all_of_the_room_may_be_used_up_until_somebody_has_looked)
{
	uint64_t count, ns;
	pthread_t looker;

	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	cr_assert_eq(pthread_create(&looker, NULL, look_soon, NULL), 0);
	(void)mt_throttle_note(100 * MB, 0);
	errno = 77;

	uint64_t waited = heeded_ns();

	cr_expect_eq(errno, 77);
	cr_expect_geq(waited, SOON_NS / 2);
	cr_expect_lt(waited, LATE_NS, "woken");
	mt_throttle_read(&count, &ns);
	cr_expect_leq(count, 1, "one that was kept from sleeping until all was over has not waited");
	cr_expect_leq(ns, waited);
	pthread_join(looker, NULL);
}

Test(throttle, lets_all_that_wait_go_on_at_once)
{
	pthread_t threads[8];
	uint64_t began, count, ns;

	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	began = mt_os_now_ns();
	for (int i = 0; i < 8; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, heed_too, NULL), 0);
	while (heeding < 8)
		usleep(1000);
	usleep(50000); /* the last of them sleeps now, or will see that it need not */
	(void)mt_throttle_begin();
	mt_throttle_release();
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	cr_expect_lt(mt_os_now_ns() - began, 2 * LATE_NS);
	mt_throttle_read(&count, &ns);
	cr_expect_geq(count, 1);
	cr_expect_leq(count, 8);
	cr_expect_lt(ns, 8 * LATE_NS);
}

Test(throttle, waits_no_longer_than_it_is_told_for_a_reaper_that_does_not_come)
{
	begin("30");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);

	uint64_t waited = heeded_ns();

	cr_expect_geq(waited, 30 * MT_NS_PER_MS);
	cr_expect_lt(waited, 5 * MT_NS_PER_S);
}

static void expect_waits(uint64_t expected)
{
	uint64_t count, ns;

	mt_throttle_heed();
	mt_throttle_read(&count, &ns);
	cr_expect_eq(count, expected);
}

static void expect_no_wait(void)
{
	expect_waits(0);
}

Test(throttle, waits_for_a_reaper_that_does_not_come_once_and_not_again)
{
	begin("1");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	expect_waits(1);
	expect_waits(1);
	(void)mt_throttle_note(MB, 0);
	expect_waits(1);
	usleep(20000); /* four times what it has waited, at least */
	expect_waits(1);
	mt_throttle_watch();
	mt_throttle_release();
	expect_waits(2);
}

static void *heed_long(void *unused)
{
	mt_throttle_heed();
	return unused;
}

Test(throttle, rests_four_times_as_long_as_was_waited_after_a_look_of_no_use)
{
	pthread_t waiter;
	uint64_t began;

	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	cr_assert_eq(pthread_create(&waiter, NULL, heed_long, NULL), 0);
	while (!rung())
		usleep(1000);
	usleep(100000);
	(void)mt_throttle_begin();
	mt_throttle_rest(0);
	mt_throttle_release();
	pthread_join(waiter, NULL);
	began = mt_os_now_ns();
	mt_bell_take(MT_BELL_GROWTH);
	mt_throttle_rest(1); /* a shorter one does not end it */
	while (mt_os_now_ns() - began < 150 * MT_NS_PER_MS) {
		mt_throttle_heed();
		cr_assert_not(rung(), "after %llu ms", (unsigned long long)((mt_os_now_ns() - began) / MT_NS_PER_MS));
		usleep(10000);
	}
	mt_throttle_watch();
	begin("0");
	mt_throttle_heed();
	cr_expect(rung(), "a look of use ends the rest");
}

Test(throttle, never_waits_where_it_is_told_so)
{
	begin("0");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	expect_no_wait();
	cr_expect(rung());
}

Test(throttle, never_waits_while_there_is_room)
{
	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(99 * MB, 0);
	expect_no_wait();
}

Test(throttle, lets_the_reaper_itself_never_wait)
{
	begin(LONG);
	mt_throttle_exempt();
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	expect_no_wait();
}

Test(throttle, neither_rings_nor_waits_while_it_rests)
{
	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	mt_throttle_rest(3600 * MT_NS_PER_S);
	(void)mt_throttle_note(100 * MB, 0);
	expect_no_wait();
	cr_expect_not(rung());
	mt_throttle_watch();
	begin("1");
	mt_throttle_heed();
	cr_expect(rung());
}

Test(throttle, lets_a_leap_past_the_rest)
{
	begin("1");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	mt_throttle_rest(3600 * MT_NS_PER_S);
	(void)mt_throttle_note(LEAP - 1, 0);
	expect_no_wait();
	cr_expect_not(rung());
	(void)mt_throttle_note(1, 0);
	expect_waits(1);
	cr_expect(rung());
}

Test(throttle, lets_leaps_rest_too_once_one_has_waited_in_vain)
{
	begin("250");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(LEAP, 0);
	expect_waits(1);
	mt_throttle_release(); /* a new look, for which nobody has waited yet */
	mt_bell_take(MT_BELL_GROWTH);
	expect_waits(1);
	cr_expect_not(rung());
	mt_throttle_watch();
	begin("1");
	expect_waits(2);
	cr_expect(rung(), "a look of use ends that rest as well");
}

Test(throttle, lets_a_leap_wait_after_one_that_was_none_has_waited_in_vain)
{
	begin("100");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	expect_waits(1);
	mt_throttle_release();
	(void)mt_throttle_note(50 * MB, 0);
	expect_waits(2);
}

Test(throttle, lets_no_leap_past_the_rest_where_nobody_waits)
{
	begin("0");
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	mt_throttle_rest(3600 * MT_NS_PER_S);
	(void)mt_throttle_note(LEAP, 0);
	expect_no_wait();
	cr_expect_not(rung());
}

static _Atomic bool is_through;

static void *heed_through(void *unused)
{
	mt_throttle_heed();
	is_through = true;
	return unused;
}

Test(throttle, waits_for_one_more_look_where_the_first_began_before_it_told)
{
	pthread_t waiter;
	uint64_t began, count, ns;

	begin(LONG);
	mt_throttle_set(10 * MB, 100 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	began = mt_os_now_ns();
	cr_assert_eq(pthread_create(&waiter, NULL, heed_through, NULL), 0);
	while (!rung())
		usleep(1000);
	usleep(20000);
	mt_throttle_release(); /* what was told stands still: that look has not taken it */
	usleep(20000);
	cr_expect_not(is_through);
	mt_throttle_release(); /* whatever that one has seen, two are enough */
	pthread_join(waiter, NULL);
	cr_expect_lt(mt_os_now_ns() - began, 1000 * MT_NS_PER_MS, "woken");
	mt_throttle_read(&count, &ns);
	cr_expect_leq(count, 1, "it is one wait");
}

Test(throttle, forgets_the_rest_of_leaps_in_a_forked_child)
{
	begin("100");
	mt_throttle_set(10 * MB, 20 * MB, LEAP);
	(void)mt_throttle_note(LEAP, 0);
	expect_waits(1);

	mt_throttle_fork_child();

	mt_throttle_set(10 * MB, 20 * MB, LEAP);
	(void)mt_throttle_note(LEAP, 0);
	expect_waits(1);
}

Test(throttle, forgets_all_in_a_forked_child)
{
	uint64_t count, ns;

	begin("1");
	mt_throttle_set(10 * MB, 20 * MB, LEAP);
	(void)mt_throttle_note(100 * MB, 0);
	mt_throttle_heed();
	mt_throttle_rest(3600 * MT_NS_PER_S);
	mt_bell_take(MT_BELL_GROWTH);

	mt_throttle_fork_child();

	cr_expect_not(mt_throttle_note(100 * MB, 0));
	mt_throttle_read(&count, &ns);
	cr_expect_eq(count + ns, 0);
	mt_throttle_set(10 * MB, 20 * MB, LEAP);
	cr_expect_not(mt_throttle_note(9 * MB, 0), "counted anew");
	(void)mt_throttle_note(11 * MB, 0);
	expect_waits(1);
	cr_expect(rung(), "no rest of the parent's");
}
