/* test_main_thread.c -- sys/main_thread: who is left of a process whose main thread has ended, by
 * the kernel's own line. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "sys/main_thread.h"

/* The fields of proc(5) from the name on; the name may hold anything. */
static bool is_single(char state, int threads, unsigned int own)
{
	char text[256];

	(void)snprintf(
		text, sizeof(text),
		"4711 (a) Z 1 (b) %c 1 4711 4711 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 %d 0 100 0 0",
		state, threads);
	return mt_main_thread_is_last(text, own);
}

Test(last, only_the_ended_main_thread_the_caller_and_shim_threads_are_left)
{
	cr_expect(is_single('Z', 2, 0));
	cr_expect(is_single('Z', 3, 1));
	cr_expect_not(is_single('Z', 3, 0));
	cr_expect_not(is_single('Z', 4, 1));
}

Test(last, a_main_thread_that_still_runs_its_destructors_is_waited_for)
{
	cr_expect_not(is_single('S', 2, 0));
	cr_expect_not(is_single('R', 2, 0));
}

Test(last, what_cannot_be_read_is_no_reason_to_end_a_process)
{
	cr_expect_not(mt_main_thread_is_last("", 0));
	cr_expect_not(mt_main_thread_is_last("4711 (a) Z 1", 0));
	cr_expect_not(
		mt_main_thread_is_last("4711 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 max", 0));
}
