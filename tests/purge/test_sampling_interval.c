/* test_sampling_interval.c -- purge/tick: the allocator is read as rarely as can be,
 * and nothing is missed for it. */
#include "policy_sim.h"

#include "purge/purge.h"
#include "purge/policy.h"
#include "core/core_internal.h"

#define GATE MIB(64)
#define DEAR 5000000ull /* ns: the epoch of 512 arenas */
#define FAIR 20000ull   /* the page counters of 64 */

/* 300 MB of fragments stand between resident and live; the last answer, a tick ago, found next to
 * nothing. */
static struct mt_policy policy;
static struct mt_config cfg;
static struct mt_last_sample asked;
static struct mt_snapshot now;

static void begin(uint64_t cost_ns)
{
	mt_config_defaults(&cfg);
	cfg.tick_ms = 100;
	cfg.slack_mb = GATE / MT_MIB;
	mt_policy_start(&policy, PAGE, SECONDS(100));
	now = (struct mt_snapshot){.now_ns = SECONDS(100),
				   .rss_bytes = MIB(500),
				   .anon_bytes = MIB(480),
				   .live_bytes = MIB(180),
				   .allocated_bytes = MIB(1000)};
	asked = (struct mt_last_sample){.cost_ns = cost_ns, .dirty_bytes = MIB(2)};
	mt_tick_interval_note(&asked, &now);
	now.now_ns += MS(100);
	now.allocated_bytes += MIB(50); /* which has been freed again */
}

static enum mt_sampling_interval decide(void)
{
	return mt_tick_interval_decide(&asked, &policy, &now, &cfg, true);
}

Test(sampling, does_not_ask_below_the_gate)
{
	begin(FAIR);
	now.anon_bytes = now.rss_bytes = MIB(180) + GATE - 1;
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_SKIP);
}

Test(sampling, asks_when_it_never_has)
{
	begin(FAIR);
	asked = (struct mt_last_sample){0};
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, fragmentation_is_not_read_again_at_every_tick)
{
	uint64_t count = 0;

	begin(DEAR);
	/* a minute of churn that leaves everything as it was */
	for (int tick = 0; tick < 600; tick++) {
		if (decide() == MT_SAMPLING_INTERVAL_READ) {
			mt_tick_interval_note(&asked, &now);
			count++;
		}
		now.now_ns += MS(100);
		now.allocated_bytes += MIB(50);
	}
	cr_expect_leq(count, 30, "%llu times", (unsigned long long)count);
	cr_expect_geq(count, 25, "and not never: fragments may have become free pages");
}

Test(sampling, a_cheap_sample_is_read_at_every_tick)
{
	begin(2000);
	now.allocated_bytes += 1;
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, a_process_at_rest_is_not_read_again)
{
	begin(FAIR);
	mt_tick_interval_note(&asked, &now);
	now.now_ns += SECONDS(3600);
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_REUSE);
	now.anon_bytes += 4096;
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, an_idle_heap_is_read_at_once_however_expensive_that_is)
{
	begin(DEAR);
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_REUSE);
	now.live_bytes -= GATE / 2; /* dropped, and resident still */
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, dirty_bytes_above_the_threshold_are_read_at_every_tick)
{
	begin(DEAR);
	asked.dirty_bytes = GATE;
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, fragments_that_become_free_pages_are_found_within_two_seconds)
{
	begin(DEAR * 100);
	now.live_bytes -= MIB(1);
	now.now_ns = asked.at_ns + SECONDS(2);
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, live_memory_that_is_not_resident_hides_nothing_for_long)
{
	begin(FAIR);
	now.live_bytes = MIB(2000);
	now.allocated_bytes = MIB(4000);
	mt_tick_interval_note(&asked, &now);
	now.now_ns += MS(900);
	now.allocated_bytes += MIB(2);
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_SKIP);
	now.now_ns += MS(100);
	cr_expect_eq(decide(), MT_SAMPLING_INTERVAL_READ);
}

Test(sampling, where_nobody_counts_the_answer_is_never_taken_for_unchanged)
{
	begin(FAIR);
	now.allocated_bytes = 0;
	mt_tick_interval_note(&asked, &now);
	now.now_ns += SECONDS(1);
	cr_expect_eq(mt_tick_interval_decide(&asked, &policy, &now, &cfg, false),
		     MT_SAMPLING_INTERVAL_READ);
}
