/* tests/ctl/test_diagnose_sample.c -- the look of mtctl diagnose: what the ring of the stats file
 * knows of the time before. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/diagnose/facts_internal.h"
#include "ctl/process/clock.h"

#define SECOND 1000000000ull

static struct mt_facts facts;

/* A ring that has gone round: the sample with the number n, counted from 0, is 900 ms younger than
 * the one before. */
static void fill_ring(uint64_t count)
{
	facts.first.head.samples_count = count;
	facts.first.head.time_ns = 2000 * SECOND;
	for (uint64_t n = count > MT_SAMPLES_COUNT ? count - MT_SAMPLES_COUNT : 0; n < count; n++)
		facts.first.samples[n % MT_SAMPLES_COUNT] = (struct mt_stats_sample){
			.time_ns = 2000 * SECOND - (count - n) * 9 * SECOND / 10, .live_bytes = n};
}

Test(diagnose_sample, the_history_reaches_to_the_first_sample)
{
	const struct mt_sample *last;

	fill_ring(1500);
	mt_diagnose_read_history(&facts);
	cr_assert_eq(facts.history_count, 1000, "15 minutes of the ring's: %zu",
		     facts.history_count);
	last = &facts.history[facts.history_count - 1];
	cr_expect_eq(last->live_bytes, 1499);
	cr_expect(last->at_s > -1 && last->at_s < 0);
	cr_expect_eq(facts.history[0].live_bytes, 500);
}

Test(diagnose_sample, a_young_ring_is_a_short_history)
{
	fill_ring(3);
	mt_diagnose_read_history(&facts);
	cr_assert_eq(facts.history_count, 3);
	cr_expect_eq(facts.history[2].live_bytes, 2);
}

/* So it is after a process has woken up during the look: its samples begin again. */
Test(diagnose_sample, the_first_sample_takes_no_value_from_a_sample_before_it)
{
	struct mt_error_reason why;
	uint64_t read_ns;

#ifdef __SANITIZE_THREAD__
	cr_skip_test("it would read the page map of ThreadSanitizer's terabytes");
#endif
	cr_assert_eq(mt_process_find(getpid(), &facts.process, &why), MT_ERR_OK);
	facts.asleep = facts.has_pymalloc = facts.arenas_known = true;
	facts.arenas_read_ns = mt_clock_now_ns();
	facts.arenas_cost_ns = 10 * SECOND;
	read_ns = facts.arenas_read_ns;
	cr_assert(mt_diagnose_sample_now(&facts, 0));
	cr_expect_gt(facts.arenas_read_ns, read_ns, "it reads the arenas again");
}
