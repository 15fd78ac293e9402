/* test_watchdog.c -- what a child reads comes whole, and a child that waits or computes for too
 * long is ended. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"

static void say(const void *argument, int to)
{
	mt_watchdog_write(to, argument, strlen(argument));
}

static void wait_for_ever(const void *argument, int to)
{
	say(argument, to);
	for (;;)
		pause();
}

static void compute_for_ever(const void *argument, int to)
{
	say(argument, to);
	for (;;)
		continue;
}

static void die(const void *argument, int to)
{
	say(argument, to);
	abort();
}

static void say_slowly(const void *argument, int to)
{
	for (int i = 0; i < 8; i++) {
		usleep(MT_WATCHDOG_WAIT_MS * 1000 / 2);
		say(argument, to);
	}
}

static void check(void (*work)(const void *, int), size_t most_bytes, const char *expected,
		  bool expected_stuck)
{
	const struct mt_watchdog watchdog = {work, "some", most_bytes, 300, 0};
	size_t length = 0;
	struct mt_watchdog_end end = {.is_stuck = !expected_stuck};
	char *text = mt_watchdog_run(&watchdog, &length, &end);

	cr_expect_str_eq(text, expected);
	cr_expect_eq(length, strlen(expected));
	cr_expect_eq(end.is_stuck, expected_stuck);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no child is left");
	free(text);
}

Test(watchdog, what_was_written_comes_and_no_more_than_is_wanted)
{
	check(say, 100, "some", false);
	check(say, 3, "som", false);
	check(die, 100, "some", false);
}

Test(watchdog, who_waits_or_computes_for_too_long_is_ended)
{
	uint64_t from_ns = mt_clock_now_ns();

	check(wait_for_ever, 100, "some", true);
	check(compute_for_ever, 100, "some", true);
	cr_expect_lt(mt_clock_now_ns() - from_ns, UINT64_C(5000000000));
}

Test(watchdog, who_goes_on_writing_has_time)
{
	check(say_slowly, 100, "somesomesomesomesomesomesomesome", false);
}

static void say_late(const void *argument, int to)
{
	usleep(MT_WATCHDOG_WAIT_MS * 1000 * 2);
	say(argument, to);
}

Test(watchdog, who_is_given_more_time_to_wait_is_waited_for_and_no_longer_than_it_takes)
{
	const struct mt_watchdog watchdog = {say_late, "some", 100, 20000, 10000};
	uint64_t from_ns = mt_clock_now_ns();
	struct mt_watchdog_end end = {.is_stuck = true};
	size_t length = 0;

	free(mt_watchdog_run(&watchdog, &length, &end));

	cr_expect_not(end.is_stuck);
	cr_expect_eq(length, strlen("some"));
	cr_expect_lt(mt_clock_now_ns() - from_ns, UINT64_C(9000000000));
}

Test(watchdog, all_waits_of_a_run_are_added_up)
{
	const struct mt_watchdog watchdog = {say_slowly, "some", 100, 300, 0};
	struct mt_watchdog_end end = {0};
	size_t length = 0;

	free(mt_watchdog_run(&watchdog, &length, &end));

	cr_expect_not(end.is_stuck);
	cr_expect_geq(end.waited_ms, 4 * MT_WATCHDOG_WAIT_MS / 2);
}
