/* test_policy.c -- purge/policy: when the heap is purged, and when it is not. The budget has
 * test_policy_budget.c. */
#include "policy_sim.h"

static struct sim sim;

/* A program with so much live memory, up for a while and at rest: nothing dirty, nothing left to
 * settle. */
static void begin(uint64_t live_bytes)
{
	sim_start(&sim);
	sim_allocate(&sim, live_bytes);
	sim_pass(&sim, SECONDS(20));
	cr_assert_eq(sim.purges_count, 0, "nothing was there to purge");
}

/* Moves the heap a little, until the worker looks often. */
static void stir(void)
{
	for (int i = 0; i < 20; i++) {
		sim_allocate(&sim, MIB(2));
		sim_pass(&sim, MS(300));
		sim_free(&sim, MIB(2));
	}
}

Test(policy, leaves_single_what_is_reused_every_step)
{
	static const struct sim_step steps[] = {
		{MIB(512), MS(500), MS(90)},
		{MIB(512), MS(90), MS(90)},
		{MIB(512), MS(3000), MS(90)},
		{MIB(2048), MS(150), MS(50)},
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		begin(MIB(256));
		for (int round = 0; round < 600; round++)
			sim_play(&sim, &steps[i]);
		cr_expect_eq(sim.purges_count, 0, "pattern %zu: %llu purges", i,
			     (unsigned long long)sim.purges_count);
	}
}

Test(policy, leaves_single_a_buffer_that_comes_and_goes_between_two_ticks)
{
	begin(MIB(1024));
	for (int i = 0; i < 3000; i++) {
		/* of 1 GB: no drop of live bytes, but past the gate */
		sim_allocate(&sim, MIB(150));
		sim_free(&sim, MIB(150));
		sim_pass(&sim, MS(70));
	}
	cr_expect_eq(sim.purges_count, 0);
}

Test(policy, purges_what_stays_unused_for_the_window)
{
	uint64_t freed_ns;

	begin(MIB(2048));
	sim_allocate(&sim, MIB(300));
	stir();
	freed_ns = sim.now_ns;
	sim_free(&sim, MIB(300)); /* an eighth of what was live: no drop of live bytes */
	sim_pass(&sim, SECONDS(3));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_IDLE);
	cr_expect_eq(sim.purge_bytes, MIB(302), "and what the stirring has left");
	cr_expect_geq(sim.purge_at_ns - freed_ns, MS(500));
	cr_expect_leq(sim.purge_at_ns - freed_ns, MS(800));
}

Test(policy, what_was_in_use_within_the_window_is_not_idle)
{
	uint64_t freed_ns;

	begin(MIB(2200));
	sim_allocate(&sim, MIB(300));
	stir();
	sim_free(&sim, MIB(300));
	sim_pass(&sim, MS(350));
	sim_allocate(&sim, MIB(80)); /* from the 300, past the gate with them alone */
	sim_pass(&sim, MS(400));
	sim_free(&sim, MIB(80));
	freed_ns = sim.now_ns;
	sim_pass(&sim, SECONDS(3));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.purge_bytes, MIB(302));
	cr_expect_geq(sim.purge_at_ns - freed_ns, MS(400));
}

Test(policy, tells_the_lowest_of_the_window_for_idle)
{
	begin(MIB(2200));
	sim.cfg.budget_pct = 0;
	sim_allocate(&sim, MIB(600));
	stir();
	sim_free(&sim, MIB(600));
	sim_pass(&sim, SECONDS(1));
	cr_expect_eq(sim.policy.idle_bytes, MIB(602));
	sim_allocate(&sim, MIB(80));
	sim_pass(&sim, MS(250));
	sim_free(&sim, MIB(80));
	sim_pass(&sim, MS(250));
	cr_expect_eq(sim.policy.idle_bytes, MIB(522),
		     "80 MB were in use a quarter of a second ago");
	sim_pass(&sim, SECONDS(3));
	cr_expect_eq(sim.policy.idle_bytes, MIB(602));
}

Test(policy, purges_only_past_a_longer_configured_window)
{
	uint64_t freed_ns;

	begin(MIB(2048));
	sim.cfg.idle_ms = 2500;
	sim_allocate(&sim, MIB(300));
	stir();
	freed_ns = sim.now_ns;
	sim_free(&sim, MIB(300));
	sim_pass(&sim, SECONDS(5));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_geq(sim.purge_at_ns - freed_ns, MS(2500));
	cr_expect_leq(sim.purge_at_ns - freed_ns, MS(3000));
}

Test(policy, purges_at_a_live_drop_after_two_ticks)
{
	uint64_t freed_ns;

	begin(MIB(256));
	sim_allocate(&sim, MIB(200));
	stir();
	freed_ns = sim.now_ns;
	sim_free(&sim, MIB(200));
	sim_pass(&sim, SECONDS(2));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_LIVE_DROP);
	cr_expect_eq(sim.purge_bytes, MIB(202));
	cr_expect_geq(sim.purge_at_ns - freed_ns, MS(100));
	cr_expect_leq(sim.purge_at_ns - freed_ns, MS(300));
}

Test(policy, takes_no_fall_of_a_tenth_for_a_live_drop)
{
	begin(MIB(2048));
	sim_allocate(&sim, MIB(200));
	sim_pass(&sim, SECONDS(1));
	sim_free(&sim, MIB(200));
	sim_pass(&sim, SECONDS(2));
	cr_expect_eq(sim.rounds_count, 0);
	cr_expect_eq(sim.purges_count, 0, "200 MB of 2 GB are not past the gate of a tenth of RSS");
}

Test(policy, the_slack_is_a_share_of_anonymous_memory_and_small_in_a_small_process)
{
	static const struct {
		uint64_t anon_mb, slack_mb, slack_pct, threshold_mb;
	} rows[] = {{20, 16, 10, 5},    {64, 16, 10, 16},    {100, 16, 10, 16},  {400, 16, 10, 40},
		    {32, 200, 10, 100}, {100, 200, 10, 200}, {1000, 16, 50, 500}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct mt_snapshot now = {.rss_bytes = MIB(2000 + rows[i].anon_mb),
						.anon_bytes = MIB(rows[i].anon_mb)};
		struct mt_config cfg = {.slack_mb = rows[i].slack_mb,
					.slack_pct = rows[i].slack_pct};

		cr_expect_eq(mt_policy_threshold_bytes(&now, &cfg) / MIB(1), rows[i].threshold_mb,
			     "row %zu", i);
	}
}

Test(policy, waits_for_the_gate)
{
	static const struct {
		uint64_t live_mb, freed_mb, slack_mb, slack_pct;
		bool purges;
	} rows[] = {
		{256, 60, 64, 10, false},   {256, 68, 64, 10, true},    {1800, 180, 64, 10, false},
		{1800, 230, 64, 10, true},  {1800, 180, 64, 5, true},   {256, 128, 200, 10, false},
		{256, 220, 200, 10, true},  {1800, 230, 64, 50, false}, {64, 2, 0, 0, true},
		{8000, 700, 64, 10, false}, {8000, 1000, 64, 10, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(MIB(rows[i].live_mb));
		sim.cfg.slack_mb = rows[i].slack_mb;
		sim.cfg.slack_pct = rows[i].slack_pct;
		sim_allocate(&sim, MIB(rows[i].freed_mb));
		stir();
		sim_free(&sim, MIB(rows[i].freed_mb));
		sim_pass(&sim, SECONDS(4)); /* and not so long that it settles */
		cr_expect_eq(sim.purges_count > 0, rows[i].purges, "row %zu: %llu, reason %d", i,
			     (unsigned long long)sim.purges_count, (int)sim.reason);
	}
}

Test(policy, asks_the_allocator_for_its_figures_only_past_the_gate)
{
	begin(MIB(1024));
	sim_allocate(&sim, MIB(50));
	stir();
	sim.asked_count = 0;
	sim_free(&sim, MIB(50));
	stir();
	cr_expect_eq(sim.asked_count, 0, "50 MB of 1 GB, and the heap moves");
	sim_free(&sim, MIB(200));
	sim_pass(&sim, MS(200)); /* a tick, wherever in the stirring the last one was */
	cr_expect_gt(sim.asked_count, 0);
}

Test(policy, settles_once)
{
	uint64_t freed_ns;

	begin(MIB(256));
	sim_allocate(&sim, MIB(40));
	sim_free(&sim, MIB(40));
	freed_ns = sim.now_ns;
	sim_pass(&sim, SECONDS(9));
	cr_expect_eq(sim.purges_count, 0);
	sim_pass(&sim, SECONDS(3600));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_SETTLE);
	cr_expect_eq(sim.purge_bytes, MIB(40));
	cr_expect_geq(sim.purge_at_ns - freed_ns, SECONDS(10));
	cr_expect_leq(sim.purge_at_ns - freed_ns, SECONDS(15),
		      "fragmentation: within 15 s of falling idle");
}

Test(policy, settles_when_the_time_is_up_and_not_a_stretched_tick_later)
{
	uint64_t freed_ns;

	begin(MIB(256));
	sim_allocate(&sim, MIB(40));
	stir();
	sim_free(&sim, MIB(40));
	freed_ns = sim.now_ns;
	sim_pass(&sim, SECONDS(20));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_leq(sim.purge_at_ns - freed_ns, MS(10400));
}

Test(policy, settles_though_timers_allocate_a_little)
{
	uint64_t freed_ns;

	begin(MIB(256));
	sim_allocate(&sim, MIB(40));
	stir();
	sim_free(&sim, MIB(40));
	freed_ns = sim.now_ns;
	for (int i = 0; i < 150; i++) { /* as redis does, ten times a second */
		sim_allocate(&sim, 60 << 10);
		sim_free(&sim, 60 << 10);
		sim_pass(&sim, MS(100));
	}
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_SETTLE);
	cr_expect_leq(sim.purge_at_ns - freed_ns, SECONDS(13));
}

Test(policy, settles_once_also_where_that_returns_nothing)
{
	begin(MIB(256));
	sim.stuck_bytes = MIB(40);
	sim_allocate(&sim, MIB(40));
	sim_free(&sim, MIB(40));
	sim_pass(&sim, SECONDS(3600));
	cr_expect_eq(sim.purges_count, 1);
}

Test(policy, settles_again_after_new_movement)
{
	begin(MIB(256));
	for (int i = 1; i <= 3; i++) {
		sim_allocate(&sim, MIB(30));
		sim_free(&sim, MIB(30));
		sim_pass(&sim, SECONDS(120));
		cr_expect_eq(sim.purges_count, (uint64_t)i);
		cr_expect_eq(sim.reason, MT_REASON_SETTLE);
	}
}

Test(policy, does_not_settle_less_than_256_kb)
{
	begin(MIB(256));
	sim_free(&sim, MIB(1) / 4 - PAGE);
	sim_pass(&sim, SECONDS(60));
	cr_expect_eq(sim.purges_count, 0);
}

Test(policy, does_not_settle_while_the_heap_moves)
{
	begin(MIB(512));
	sim_free(&sim, MIB(40));
	for (int i = 0; i < 300; i++) {
		sim_allocate(&sim, MIB(2));
		sim_pass(&sim, MS(500));
		sim_free(&sim, MIB(2));
	}
	cr_expect_eq(sim.purges_count, 0);
}

Test(policy, tick_stretches_to_five_seconds_when_nothing_moves)
{
	uint64_t ticks;

	begin(MIB(256));
	sim_pass(&sim, SECONDS(20));
	cr_expect_eq(sim.plan.next_tick_ns, SECONDS(5), "40 s after the last movement");
	ticks = sim.ticks_count;
	sim_pass(&sim, SECONDS(3600));
	cr_expect_leq(sim.ticks_count - ticks, 721, "one wake-up in 5 s");
	cr_expect_eq(sim.plan.next_tick_ns, SECONDS(5));
}

Test(policy, tick_stretches_also_over_a_heap_that_may_not_be_purged)
{
	uint64_t ticks;

	begin(MIB(256));
	sim.cfg.budget_pct = 0;
	sim_free(&sim, MIB(128));
	sim_pass(&sim, SECONDS(60));
	ticks = sim.ticks_count;
	sim_pass(&sim, SECONDS(3600));
	cr_expect_leq(sim.ticks_count - ticks, 721);
}

Test(policy, movement_brings_the_tick_back)
{
	begin(MIB(256));
	sim_pass(&sim, SECONDS(60));
	sim_allocate(&sim, MIB(3));
	sim_pass(&sim, SECONDS(5));
	cr_expect_leq(sim.plan.next_tick_ns, SECONDS(2));
	stir();
	cr_expect_leq(sim.plan.next_tick_ns, MS(200),
		      "it stretches by a quarter in the pauses of 300 ms");
}

Test(policy, a_notification_of_growth_shortens_the_tick)
{
	begin(MIB(256));
	sim_pass(&sim, SECONDS(60));
	cr_expect_eq(sim.plan.next_tick_ns, SECONDS(5));
	sim.policy.tick_ns = 0; /* as tick.c does when growth has woken the worker */
	sim_tick(&sim);
	cr_expect_eq(sim.plan.next_tick_ns, MS(100));
}

Test(policy, a_small_movement_does_not_wake_the_machine)
{
	uint64_t ticks;

	begin(MIB(256));
	sim_pass(&sim, SECONDS(60));
	ticks = sim.ticks_count;
	for (int i = 0; i < 36000; i++) {
		sim_allocate(&sim, PAGE);
		sim_free(&sim, PAGE);
		sim_pass(&sim, MS(100));
	}
	cr_expect_leq(sim.ticks_count - ticks, 721, "40 kB a second are no movement");
}

Test(policy, keeps_to_the_configured_tick)
{
	begin(MIB(256));
	sim.cfg.tick_ms = 1000;
	for (int i = 0; i < 50; i++) {
		sim_allocate(&sim, MIB(4));
		sim_pass(&sim, MS(300));
		sim_free(&sim, MIB(4));
	}
	cr_expect_eq(sim.plan.next_tick_ns, SECONDS(1));
}

Test(policy, looks_on_soon_while_a_window_is_filling)
{
	begin(MIB(2048));
	sim_pass(&sim, SECONDS(60));
	sim.cfg.settle_ms = 3600000;
	/* and then nothing: the tick must not have stretched again before the window is full */
	sim_free(&sim, MIB(300));
	sim_pass(&sim, SECONDS(7));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_IDLE);
}

Test(policy, counts_a_round_per_live_drop)
{
	begin(MIB(256));
	stir();
	for (uint64_t round = 1; round <= 50; round++) {
		sim_allocate(&sim, MIB(200));
		sim_pass(&sim, SECONDS(1));
		cr_expect_eq(sim.rounds_count, round - 1, "round %llu has not ended",
			     (unsigned long long)round);
		sim_free(&sim, MIB(200));
		sim_pass(&sim, SECONDS(2));
		cr_expect_eq(sim.rounds_count, round);
	}
}

Test(policy, counts_a_fall_in_stages_as_one_round)
{
	begin(MIB(256));
	stir();
	for (uint64_t round = 1; round <= 20; round++) {
		sim_allocate(&sim, MIB(1000));
		sim_pass(&sim, SECONDS(1));
		for (int stage = 0; stage < 4; stage++) {
			sim_free(&sim, MIB(250));
			sim_pass(&sim, MS(700));
		}
		cr_expect_eq(sim.rounds_count, round);
	}
}

Test(policy, counts_rounds_without_a_budget)
{
	begin(MIB(256));
	sim.cfg.budget_pct = 0;
	stir();
	for (int round = 0; round < 20; round++) {
		sim_allocate(&sim, MIB(200));
		sim_pass(&sim, SECONDS(1));
		sim_free(&sim, MIB(200));
		sim_pass(&sim, SECONDS(2));
	}
	cr_expect_eq(sim.rounds_count, 20);
	cr_expect_eq(sim.purges_count, 0);
}

Test(policy, counts_rounds_that_are_too_small_to_purge_but_none_of_a_tiny_heap)
{
	begin(MIB(16));
	stir();
	for (int round = 0; round < 20; round++) {
		sim_allocate(&sim, MIB(32));
		sim_pass(&sim, SECONDS(1));
		sim_free(&sim, MIB(32));
		sim_pass(&sim, SECONDS(1));
	}
	cr_expect_eq(sim.rounds_count, 20);
	cr_expect_eq(sim.purges_count, 0);
	begin(MIB(4));
	stir();
	for (int round = 0; round < 20; round++) {
		sim_allocate(&sim, MIB(8));
		sim_pass(&sim, SECONDS(1));
		sim_free(&sim, MIB(8));
		sim_pass(&sim, SECONDS(1));
	}
	cr_expect_eq(sim.rounds_count, 0);
}
