/* test_policy_budget.c -- purge/policy: the budget. Cleaning costs the program no more than
 * MT_BUDGET_PCT of its time, by the simulator's own count (policy_sim.h), and what can be afforded
 * is done. */
#include "policy_sim.h"

static struct sim sim;

/* What the policy takes for the cost of one fault. */
static uint64_t fault_ns(void)
{
	return sim.policy.mib_fault_ns * PAGE / MT_MIB;
}

/* What the budget has allowed since the start: its share of the time, the 300 ms to begin with, and
 * one purge that turned out dearer than expected. */
static uint64_t allowed_ns(const struct sim *of, uint64_t began_ns)
{
	return (of->now_ns - began_ns) / 100 * of->cfg.budget_pct + MS(300) + of->dearest_ns;
}

static void expect_within_budget(uint64_t began_ns, const struct sim_step *step)
{
	cr_expect_leq(sim.cost_ns, allowed_ns(&sim, began_ns),
		      "%llu MB, %llu + %llu ms: %llu purges cost %llu ms of %llu allowed",
		      (unsigned long long)(step->bytes / MT_MIB),
		      (unsigned long long)(step->hold_ns / MS(1)),
		      (unsigned long long)(step->rest_ns / MS(1)),
		      (unsigned long long)sim.purges_count,
		      (unsigned long long)(sim.cost_ns / MS(1)),
		      (unsigned long long)(allowed_ns(&sim, began_ns) / MS(1)));
}

/* An hour of one step again and again, on top of 100 MB. */
static void play_an_hour(const struct sim_step *step, uint64_t seed, bool with_defaults)
{
	uint64_t began_ns;

	sim_start(&sim);
	if (with_defaults)
		mt_config_defaults(&sim.cfg);
	sim.jitter = seed;
	began_ns = sim.now_ns;
	sim_allocate(&sim, MIB(100));
	while (sim.now_ns - began_ns < SECONDS(3600))
		sim_play(&sim, step);
	expect_within_budget(began_ns, step);
}

Test(policy_budget, never_spends_more_than_its_budget)
{
	static const uint64_t periods_ms[] = {200,  500,  1000,  2200,  3000,
					      5000, 8000, 12000, 25000, 60000};
	static const uint64_t sizes_mb[] = {64, 124, 300, 1024, 4096, 16384};

	for (size_t i = 0; i < sizeof(periods_ms) / sizeof(periods_ms[0]); i++) {
		for (size_t j = 0; j < sizeof(sizes_mb) / sizeof(sizes_mb[0]); j++) {
			for (uint64_t held = 1; held <= 7; held += 6) {
				const struct sim_step step = {MIB(sizes_mb[j]),
							      MS(periods_ms[i] / 10 * held),
							      MS(periods_ms[i] / 10 * (10 - held))};

				play_an_hour(&step, i + j + held, held == 1);
			}
		}
	}
}

Test(policy_budget, never_purges_with_a_budget_of_zero)
{
	/* what the first 300 ms would pay for */
	const struct sim_step step = {MIB(100), SECONDS(1), SECONDS(30)};

	sim_start(&sim);
	sim.cfg.budget_pct = 0;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 100; i++)
		sim_play(&sim, &step);
	sim_pass(&sim, SECONDS(3600));
	cr_expect_eq(sim.purges_count, 0);
	cr_expect_eq(sim.cost_ns, 0);
}

Test(policy_budget, purges_again_two_hours_after_a_day_of_pressure)
{
	const struct sim_step step = {MIB(300), SECONDS(5), SECONDS(55)};
	struct mt_snapshot after;

	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	after = sim_look(&sim);
	/* its cleanups were not held back, but charged */
	mt_policy_note_purge(&sim.policy, &after, 0, SECONDS(3000), true);
	for (int i = 0; i < 120; i++)
		sim_play(&sim, &step);
	cr_expect_geq(sim.purges_count, 1);
}

Test(policy_budget, purges_a_round_every_few_seconds)
{
	const struct sim_step step = {MIB(124), SECONDS(1), SECONDS(2)};

	sim_start(&sim);
	sim_allocate(&sim, MIB(250));
	for (int i = 0; i < 100; i++)
		sim_play(&sim, &step);
	cr_expect_geq(sim.purges_count, 90, "%llu of 100 rounds",
		      (unsigned long long)sim.purges_count);
	cr_expect_eq(sim.reason, MT_REASON_LIVE_DROP);
}

Test(policy_budget, does_not_purge_what_would_come_back_sooner_than_it_pays)
{
	/* 1 GB every second: each purge would cost half a second. */
	const struct sim_step step = {MIB(1024), MS(100), MS(900)};
	uint64_t began_ns;

	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	began_ns = sim.now_ns;
	while (sim.now_ns - began_ns < SECONDS(3600))
		sim_play(&sim, &step);
	cr_expect_leq(sim.purges_count, 1, "%llu", (unsigned long long)sim.purges_count);
	cr_expect_leq(sim.cost_ns, SECONDS(3600) / 500);
}

Test(policy_budget, does_not_purge_while_the_pages_are_being_reused)
{
	sim_start(&sim);
	sim_allocate(&sim, MIB(1100));
	sim_free(&sim, MIB(1000));
	/* idle for long, and the balance never covers all of it */
	for (int i = 0; i < 60; i++) {
		sim.policy.balance_ns = (int64_t)MS(220);
		sim_allocate(&sim, MIB(2));
		sim_pass(&sim, MS(100));
		sim_free(&sim, MIB(2));
	}
	cr_assert_eq(sim.purges_count, 0);
	for (int i = 0; i < 8; i++) { /* now what is left of it costs less with each tick */
		sim_allocate(&sim, MIB(100));
		sim_pass(&sim, MS(100));
	}
	cr_expect_eq(sim.purges_count, 0, "what is left is wanted next");
	cr_expect_geq(sim.dirty_bytes, MIB(150));
}

Test(policy_budget, purges_steps_of_five_seconds_now_and_then)
{
	const struct sim_step step = {MIB(1024), MS(100), MS(4900)};

	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 400; i++)
		sim_play(&sim, &step);
	cr_expect_geq(sim.purges_count, 80, "%llu of 400 steps",
		      (unsigned long long)sim.purges_count);
}

Test(policy_budget, purges_again_once_the_program_has_become_slow)
{
	const struct sim_step quick = {MIB(1024), MS(100), MS(900)};
	const struct sim_step slow = {MIB(1024), SECONDS(5), SECONDS(55)};
	uint64_t before;

	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 600; i++)
		sim_play(&sim, &quick);
	before = sim.purges_count;
	for (int i = 0; i < 40; i++)
		sim_play(&sim, &slow);
	cr_expect_geq(sim.purges_count - before, 30, "%llu of 40",
		      (unsigned long long)(sim.purges_count - before));
}

Test(policy_budget, learns_that_faults_are_dearer)
{
	const struct sim_step step = {MIB(300), SECONDS(1), SECONDS(9)};
	uint64_t began_ns;

	sim_start(&sim);
	sim.fault_ns = 8000; /* a host that takes pages back; 1600 was measured */
	began_ns = sim.now_ns;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 360; i++)
		sim_play(&sim, &step);
	cr_expect_geq(fault_ns(), 7000, "%llu ns", (unsigned long long)fault_ns());
	cr_expect_leq(fault_ns(), 9000, "%llu ns", (unsigned long long)fault_ns());
	expect_within_budget(began_ns, &step);
	cr_expect_geq(sim.purges_count, 90, "%llu of 360", (unsigned long long)sim.purges_count);
}

/* Four clients of a federated round that train at the same time, on four CPUs. */
Test(policy_budget, charges_threads_that_fault_together_by_wall_time)
{
	const struct sim_step step = {MIB(1024), SECONDS(9), SECONDS(9)};
	uint64_t alone;

	sim_start(&sim);
	sim.fault_ns = 3000;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 20; i++)
		sim_play(&sim, &step);
	alone = sim.purges_count;
	sim_start(&sim);
	sim.fault_ns = 3000;
	sim.threads = 4;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 20; i++)
		sim_play(&sim, &step);
	cr_expect_geq(sim.purges_count, 18, "%llu, one thread %llu",
		      (unsigned long long)sim.purges_count, (unsigned long long)alone);
	cr_expect_lt(alone, 18, "%llu", (unsigned long long)alone);
}

/* As a program whose import compiles on all CPUs, and that computes in one thread from then on. */
Test(policy_budget, forgets_that_threads_shared_the_cost)
{
	const struct sim_step step = {MIB(1024), SECONDS(9), SECONDS(9)};
	uint64_t began_ns;
	int64_t saved_ns;

	sim_start(&sim);
	sim.fault_ns = 3000;
	sim.threads = 16;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 20; i++)
		sim_play(&sim, &step);
	sim.threads = 1;
	for (int i = 0; i < 20; i++)
		sim_play(&sim, &step);
	began_ns = sim.now_ns;
	saved_ns = sim.policy.balance_ns;
	sim.cost_ns = 0;
	for (int i = 0; i < 400; i++)
		sim_play(&sim, &step);
	cr_expect_leq(sim.cost_ns, (uint64_t)saved_ns + allowed_ns(&sim, began_ns), "%llu ms",
		      (unsigned long long)(sim.cost_ns / MS(1)));
}

Test(policy_budget, charges_a_purge_by_what_it_took_from_the_program)
{
	const struct mt_snapshot before = {.usage_known = true};
	const struct mt_snapshot unknown = {.now_ns = MS(40)};
	struct mt_snapshot after = {.now_ns = MS(40), .usage_known = true};
	static const struct {
		uint64_t cpu_ms, cost_ms;
		const char *text;
	} rows[] = {{120, 40, "two threads ran: all of it"},
		    {80, 40, "one thread ran: all of it"},
		    {60, 20, "half a thread ran: half"},
		    {40, 10, "none ran: a quarter"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		after.cpu_ns = MS(rows[i].cpu_ms);
		cr_expect_eq(mt_policy_purge_cost_ns(MS(40), &before, &after), MS(rows[i].cost_ms),
			     "%s", rows[i].text);
	}
	cr_expect_eq(mt_policy_purge_cost_ns(MS(40), &before, &unknown), MS(40), "refused clocks");
}

Test(policy_budget, forgets_that_faults_were_dear)
{
	const struct sim_step step = {MIB(300), SECONDS(1), SECONDS(9)};

	sim_start(&sim);
	sim.fault_ns = 16000;
	sim_allocate(&sim, MIB(100));
	for (int i = 0; i < 100; i++)
		sim_play(&sim, &step);
	sim.fault_ns = 1600;
	for (int i = 0; i < 100; i++)
		sim_play(&sim, &step);
	cr_expect_leq(fault_ns(), 2000, "%llu ns", (unsigned long long)fault_ns());
}

Test(policy_budget, a_large_idle_heap_is_purged_in_the_end)
{
	sim_start(&sim);
	sim_allocate(&sim, MIB(65 * 1024));
	sim_free(&sim, MIB(64 * 1024));
	sim_pass(&sim, SECONDS(3600));
	cr_expect_geq(sim.purges_count, 1);
	cr_expect_eq(sim.dirty_bytes, 0);
}

Test(policy_budget, saves_up_no_more_than_an_hour_of_budget)
{
	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	sim_pass(&sim, SECONDS(24 * 3600));
	cr_expect_leq(sim.policy.balance_ns, (int64_t)SECONDS(108));
	cr_expect_geq(sim.policy.balance_ns, (int64_t)SECONDS(107));
}

Test(policy_budget, does_not_charge_requested_purges)
{
	int64_t before;

	sim_start(&sim);
	sim_allocate(&sim, MIB(500));
	sim_pass(&sim, SECONDS(10));
	sim_free(&sim, MIB(400));
	before = sim.policy.balance_ns;
	sim_purge(&sim, false);
	cr_expect_eq(sim.policy.balance_ns, before);
	sim_allocate(&sim, MIB(400));
	sim_pass(&sim, SECONDS(10));
	cr_expect_eq(sim.policy.refault_cost_ns, 0, "nor what comes back");
	cr_expect_gt(sim.policy.balance_ns, before, "nor charged");
	before = sim.policy.balance_ns;
	sim_free(&sim, MIB(50));
	sim_purge(&sim, true);
	cr_expect_lt(sim.policy.balance_ns, before);
}

Test(policy_budget, charges_no_growth_beyond_what_was_purged)
{
	int64_t balance;
	uint64_t purged_cost = MIB(300) / PAGE * 1600;

	sim_start(&sim);
	sim_allocate(&sim, MIB(400));
	sim_pass(&sim, SECONDS(60));
	sim_free(&sim, MIB(300));
	sim_pass(&sim, SECONDS(12)); /* purged, and the tick that had stretched is over */
	cr_assert_eq(sim.purges_count, 1);
	balance = sim.policy.balance_ns;
	sim_allocate(&sim, MIB(4000));
	sim_pass(&sim, MS(200));
	cr_expect_geq(sim.policy.refault_cost_ns, purged_cost - purged_cost / 20);
	cr_expect_leq(sim.policy.refault_cost_ns, purged_cost + purged_cost / 20, "%llu",
		      (unsigned long long)sim.policy.refault_cost_ns);
	cr_expect_gt(balance - sim.policy.balance_ns, 0);
}

Test(policy_budget, charges_no_more_than_the_system_time_that_was_spent)
{
	uint64_t spent_ns;

	sim_start(&sim);
	sim_allocate(&sim, MIB(400));
	sim_pass(&sim, SECONDS(60));
	sim_free(&sim, MIB(300));
	sim_pass(&sim, SECONDS(12));
	cr_assert_eq(sim.purges_count, 1);
	/* as after much other work in the kernel */
	sim.policy.mib_fault_ns = 5 * 1000 * 1000;
	sim.policy.fault_known = true;
	spent_ns = sim.system_ns;
	sim_allocate(&sim, MIB(300));
	sim_pass(&sim, SECONDS(6));
	spent_ns = sim.system_ns - spent_ns;
	cr_expect_gt(sim.policy.refault_cost_ns, 0);
	cr_expect_leq(sim.policy.refault_cost_ns, spent_ns, "%llu us charged of %llu",
		      (unsigned long long)sim.policy.refault_cost_ns / 1000,
		      (unsigned long long)spent_ns / 1000);
}

/* Threads that purge because the heap grows pause by this cost. */
Test(policy_budget, tells_the_cost_of_a_mib_where_page_faults_are_dear)
{
	sim_start(&sim);
	sim.fault_ns = 10000;
	sim_allocate(&sim, MIB(400));
	sim_pass(&sim, SECONDS(5));
	cr_expect_geq(mt_policy_mib_cost_ns(&sim.policy), 10000 * MT_MIB / PAGE);
	cr_expect_leq(mt_policy_mib_cost_ns(&sim.policy), 15000 * MT_MIB / PAGE);
}

/* A host that gives a virtual machine its memory page by page: 1 GB took 2.4 s at its first touch,
 * and 0.3 s when it came back. */
Test(policy_budget, a_dear_first_touch_does_not_keep_memory_from_going_back)
{
	sim_start(&sim);
	sim.fault_ns = 9000;
	sim_allocate(&sim, MIB(1000));
	sim_pass(&sim, SECONDS(5));
	sim_free(&sim, MIB(900));
	sim_pass(&sim, SECONDS(3));
	cr_expect_eq(sim.purges_count, 1);
	cr_expect_leq(sim.dirty_bytes, MIB(1));
}

Test(policy_budget, never_spends_more_when_the_program_changes_its_ways)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t began_ns;
		uint64_t dice = seed;
		struct sim_step step = {MIB(100), MS(100), MS(100)};

		sim_start(&sim);
		sim.jitter = seed;
		began_ns = sim.now_ns;
		while (sim.now_ns - began_ns < SECONDS(3600)) {
			dice = dice * 6364136223846793005ull + 1442695040888963407ull;
			step.bytes = MIB(64) << (dice >> 61);
			step.hold_ns = MS(50) << (dice >> 40 & 7);
			step.rest_ns = MS(100) << (dice >> 50 & 7);
			for (int i = 0; i < 20; i++)
				sim_play(&sim, &step);
		}
		expect_within_budget(began_ns, &step);
	}
}

Test(policy_budget, does_not_take_its_own_purge_for_dear_faults)
{
	sim_start(&sim);
	sim_allocate(&sim, MIB(1100));
	sim_pass(&sim, SECONDS(60));
	for (int i = 0; i < 20; i++) { /* until the worker looks often */
		sim_allocate(&sim, MIB(2));
		sim_pass(&sim, MS(300));
		sim_free(&sim, MIB(2));
	}
	sim_free(&sim, MIB(1000));
	while (sim.purges_count == 0)
		sim_pass(&sim, MS(10));
	sim_allocate(&sim, MIB(30)); /* 7680 faults in the tick after a purge of 68 ms */
	sim_pass(&sim, SECONDS(1));
	cr_expect_leq(fault_ns(), 2000, "%llu ns", (unsigned long long)fault_ns());
}

Test(policy_budget, charges_a_fall_in_stages_for_all_that_comes_back)
{
	for (uint64_t mb = 1024; mb <= 8192; mb *= 2) {
		for (uint64_t stages = 2; stages <= 16; stages *= 2) {
			const struct sim_step step = {MIB(mb), SECONDS(1), SECONDS(2)};
			uint64_t began_ns;

			sim_start(&sim);
			began_ns = sim.now_ns;
			sim_allocate(&sim, MIB(300));
			while (sim.now_ns - began_ns < SECONDS(3600)) {
				sim_allocate(&sim, step.bytes);
				sim_pass(&sim, step.hold_ns);
				for (uint64_t i = 0; i < stages; i++) {
					sim_free(&sim, step.bytes / stages);
					sim_pass(&sim, SECONDS(1));
				}
				sim_pass(&sim, step.rest_ns);
			}
			/* What all stages took away may be out at once, and comes back at once. */
			cr_expect_leq(sim.cost_ns,
				      allowed_ns(&sim, began_ns) + (stages - 1) * sim.dearest_ns,
				      "%llu MB in %llu stages", (unsigned long long)mb,
				      (unsigned long long)stages);
		}
	}
}

Test(policy_budget, a_heap_beyond_an_hour_of_budget_is_purged_in_the_end)
{
	for (uint64_t gib = 64; gib <= 512; gib *= 2) {
		sim_start(&sim);
		sim.fault_ns = 8000;
		sim_allocate(&sim, MIB((gib + 1) * 1024));
		sim_free(&sim, MIB(gib * 1024));
		sim_pass(&sim, SECONDS(2 * 3600));
		cr_expect_geq(sim.purges_count, 1, "%llu GiB", (unsigned long long)gib);
		cr_expect_eq(sim.dirty_bytes, 0);
	}
}

Test(policy_budget, a_window_of_more_ticks_than_it_has_samples_fills_all_the_same)
{
	static const struct {
		uint64_t tick_ms, idle_ms;
	} rows[] = {{10, 500}, {100, 5000}, {100, 60000}, {20, 2000}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t freed_ns;

		sim_start(&sim);
		sim.cfg.tick_ms = rows[i].tick_ms;
		sim.cfg.idle_ms = rows[i].idle_ms;
		sim_allocate(&sim, MIB(2300));
		sim_pass(&sim, SECONDS(5));
		sim_free(&sim, MIB(300));
		freed_ns = sim.now_ns;
		while (sim.now_ns - freed_ns < SECONDS(90)) {
			sim_allocate(&sim, MIB(2)); /* so that it does not settle */
			sim_pass(&sim, MS(50));
			sim_free(&sim, MIB(2));
		}
		cr_expect_eq(sim.purges_count, 1, "row %zu", i);
		cr_expect_geq(sim.purge_at_ns - freed_ns, MS(rows[i].idle_ms), "row %zu", i);
		cr_expect_leq(sim.purge_at_ns - freed_ns, MS(rows[i].idle_ms) / 8 * 10 + MS(1000),
			      "row %zu", i);
	}
}

Test(policy_budget, faults_are_charged_though_usage_is_read_only_when_pages_come_back)
{
	const struct sim_step step = {MIB(124), SECONDS(1), SECONDS(60)};

	sim_start(&sim);
	sim_allocate(&sim, MIB(250));
	for (int i = 0; i < 20; i++)
		sim_play(&sim, &step);
	cr_expect_geq(sim.purges_count, 18);
	/* By the simulator's count, which is of what the purged heap faults more than its twin. */
	cr_expect_geq(sim.policy.refault_cost_ns, sim.cost_ns / 7 * 6 / 10 * 8,
		      "%llu us charged of %llu",
		      (unsigned long long)sim.policy.refault_cost_ns / 1000,
		      (unsigned long long)sim.cost_ns / 1000);
	cr_expect_leq(sim.usage_count, sim.ticks_count / 3, "usage read in %llu of %llu ticks",
		      (unsigned long long)sim.usage_count, (unsigned long long)sim.ticks_count);
}

Test(policy_budget, a_process_that_only_churns_does_not_have_its_usage_read)
{
	uint64_t before;

	sim_start(&sim);
	sim_allocate(&sim, MIB(250));
	sim_pass(&sim, SECONDS(1));
	before = sim.usage_count;
	for (int i = 0; i < 600; i++) {
		sim.allocated_bytes += MIB(50);
		sim_pass(&sim, MS(100));
	}
	cr_expect_leq(sim.usage_count, before + 1);
}

/* A program whose purges have been dear and whose pages came back every second falls idle. */
static void rest_after_dear_purges(int64_t balance_ns)
{
	sim_start(&sim);
	sim_allocate(&sim, MIB(300));
	sim_pass(&sim, MS(100));
	sim.policy.balance_ns = balance_ns;
	sim.policy.mib_fault_ns = 2600 * 1000;
	sim.policy.return_known = true;
	sim.policy.purged_bytes = MIB(176);
	sim.policy.purged_rss_bytes = sim_rss(&sim);
	sim.policy.returned_bytes = MIB(176);
	sim_free(&sim, MIB(176));
}

Test(policy_budget, what_rests_is_purged_though_it_is_not_saved_for_yet)
{
	uint64_t freed_ns;

	rest_after_dear_purges((int64_t)MS(1));
	freed_ns = sim.now_ns;
	sim_pass(&sim, MS(10500));
	cr_assert_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_SETTLE);
	cr_expect_leq(sim.purge_at_ns - freed_ns, MS(10400));
}

Test(policy_budget, what_rests_is_not_purged_while_an_earlier_purge_is_owed_for)
{
	rest_after_dear_purges(-(int64_t)SECONDS(1));
	sim_pass(&sim, SECONDS(20));
	cr_expect_eq(sim.purges_count, 0);
	sim_pass(&sim, SECONDS(20));
	cr_expect_eq(sim.purges_count, 1, "all but 0.3 s of it is paid off in 23 s");
}

Test(policy_budget, under_a_cpu_quota_it_is_a_share_of_what_that_leaves)
{
	static const struct sim_step step = {MIB(300), MS(1000), MS(2000)};
	uint64_t began_ns;

	sim_start(&sim);
	sim.policy.quota_pct = 25;
	began_ns = sim.now_ns;
	while (sim.now_ns - began_ns < SECONDS(3600))
		sim_play(&sim, &step);
	cr_expect_gt(sim.purges_count, 1);
	cr_expect_leq(sim.cost_ns, SECONDS(36) / 4 * sim.cfg.budget_pct + MS(300) + sim.dearest_ns);
}
