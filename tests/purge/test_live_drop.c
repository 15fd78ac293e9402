/* test_live_drop.c -- purge/policy: drops of live bytes, and how it counts a round for falls of
 * the heap and of device memory. Rows of what is live at each tick, and the rounds that must have
 * been counted by its end. */
#include "policy_sim.h"

#define STEPS_MAX 16
#define TICK_NS   MS(100)

struct step {
	uint64_t ticks;
	uint64_t heap_mb, gpu_mb;
};

struct row {
	const char *name;
	uint64_t repeats;
	struct step steps[STEPS_MAX];
	uint64_t rounds;
};

static struct mt_policy policy;
static struct mt_config config;
static struct mt_snapshot now;
static uint64_t rounds, purges;

static void begin(void)
{
	mt_config_defaults(&config);
	memset(&now, 0, sizeof(now));
	now.now_ns = SECONDS(1000);
	rounds = purges = 0;
	mt_policy_start(&policy, PAGE, now.now_ns);
}

static void look(const struct step *step)
{
	struct mt_plan plan;

	now.now_ns += TICK_NS;
	now.live_bytes = MIB(step->heap_mb);
	now.gpu_live_bytes = MIB(step->gpu_mb);
	plan = mt_policy_decide(&policy, &now, &config);
	rounds += plan.round;
	purges += plan.purge;
}

static void play(const struct row *row)
{
	begin();
	for (uint64_t i = 0; i < row->repeats; i++)
		for (size_t j = 0; j < STEPS_MAX && row->steps[j].ticks; j++)
			for (uint64_t tick = 0; tick < row->steps[j].ticks; tick++)
				look(&row->steps[j]);
}

/* clang-format off */
static const struct row rows[] = {
	{"nothing at all",                                     10, {{5, 0, 0}}, 0},
	{"the heap alone",                                     10, {{5, 300, 0}, {5, 100, 0}}, 10},
	{"a device alone",                                     10, {{5, 10, 300}, {5, 10, 0}}, 10},
	{"a device that keeps its model",                      10, {{5, 10, 900}, {5, 10, 400}}, 10},
	{"both in the same tick",                              10, {{5, 300, 300}, {5, 100, 0}}, 10},
	{"the device a tick earlier",                          10, {{5, 300, 300}, {1, 300, 0}, {5, 100, 0}}, 10},
	{"the heap a tick earlier",                            10, {{5, 300, 300}, {1, 100, 300}, {5, 100, 0}}, 10},
	{"the device 200 ms earlier",                          10, {{5, 300, 300}, {2, 300, 0}, {5, 100, 0}}, 10},
	{"the heap 200 ms earlier",                            10, {{5, 300, 300}, {2, 100, 300}, {5, 100, 0}}, 10},
	{"the device a second earlier",                        10, {{5, 300, 300}, {10, 300, 0}, {5, 100, 0}}, 10},
	{"the heap a second earlier",                          10, {{5, 300, 300}, {10, 100, 300}, {5, 100, 0}}, 10},
	{"both in stages, by turns",                           10, {{5, 600, 600}, {3, 600, 400}, {3, 400, 400}, {3, 400, 200},
	                                                            {3, 200, 200}, {3, 100, 0}}, 10},
	{"a device that falls in stages",                      10, {{5, 10, 900}, {3, 10, 600}, {3, 10, 300}, {3, 10, 100}}, 10},
	{"the device twice as often as the heap",              10, {{5, 300, 300}, {5, 300, 0}, {5, 300, 300}, {5, 100, 0}}, 20},
	{"the heap twice as often as the device",              10, {{5, 300, 300}, {5, 100, 300}, {5, 300, 300}, {5, 100, 0}}, 20},
	{"one after the other, each with a rise of its own",   10, {{5, 300, 0}, {5, 100, 0}, {5, 100, 300}, {5, 100, 0}}, 20},
	{"the device rises a little between the two falls",    10, {{5, 300, 300}, {3, 300, 100}, {3, 300, 120}, {5, 100, 90}}, 10},
	{"less than 16 MB of a device",                        10, {{5, 10, 15}, {5, 10, 0}}, 0},
	{"16 MB of a device",                                  10, {{5, 10, 16}, {5, 10, 0}}, 10},
	{"a device that falls by a tenth",                     10, {{5, 10, 300}, {5, 10, 270}}, 0},
	{"a device that falls for one tick",                   10, {{5, 10, 300}, {1, 10, 0}}, 0},
	{"crumbs on the device after its fall",                10, {{5, 300, 300}, {1, 100, 0}, {1, 100, 1}, {5, 100, 3}}, 10},
	{"a device that only grows",                            1, {{5, 10, 100}, {5, 10, 200}, {5, 10, 400}, {5, 10, 800}}, 0},
	{"a heap of less than 16 MB beside a device",          10, {{5, 12, 300}, {5, 2, 0}}, 10},
	{"a device beside a heap that goes up and stays",       1, {{5, 100, 300}, {5, 300, 0}, {5, 300, 300}, {5, 300, 0}}, 2},
};
/* clang-format on */

Test(live_drop, counts_rounds_of_heap_and_device)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		play(&rows[i]);
		cr_expect_eq(rounds, rows[i].rounds, "%s: %llu rounds", rows[i].name,
			     (unsigned long long)rounds);
	}
}

Test(live_drop, of_a_device_causes_no_purge)
{
	const struct row row = {"", 50, {{5, 100, 900}, {5, 100, 0}}, 0};

	begin();
	now.dirty_known = true;
	now.dirty_bytes = MIB(8); /* far below the gate */
	now.rss_bytes = now.anon_bytes = MIB(200);
	for (uint64_t i = 0; i < row.repeats; i++)
		for (size_t j = 0; j < 2; j++)
			for (uint64_t tick = 0; tick < row.steps[j].ticks; tick++)
				look(&row.steps[j]);
	cr_expect_eq(rounds, 50);
	cr_expect_eq(purges, 1, "but the heap settles all the same: %llu",
		     (unsigned long long)purges);
}

Test(live_drop, of_a_device_does_not_hide_that_of_the_heap)
{
	struct mt_plan plan;
	struct sim sim;

	/* The device has ended the round; what the heap lets go after it is purged all the same. */
	sim_start(&sim);
	sim_allocate(&sim, MIB(400));
	sim_pass(&sim, SECONDS(60));
	sim_allocate(&sim, MIB(2));
	sim.gpu_live_bytes = MIB(500);
	sim_pass(&sim, SECONDS(10));
	sim.gpu_live_bytes = 0;
	sim_pass(&sim, SECONDS(6));
	cr_expect_eq(sim.rounds_count, 1);
	sim_free(&sim, MIB(300));
	sim_pass(&sim, SECONDS(10));
	plan = sim.plan;
	cr_expect_eq(sim.rounds_count, 1, "one round");
	cr_expect_eq(sim.purges_count, 1);
	cr_expect_eq(sim.reason, MT_REASON_LIVE_DROP);
	cr_expect_not(plan.purge);
}

Test(live_drop, movement_on_a_device_keeps_the_tick_short)
{
	struct sim sim;

	sim_start(&sim);
	sim_allocate(&sim, MIB(100));
	sim_pass(&sim, SECONDS(120));
	cr_expect_eq(sim.plan.next_tick_ns, SECONDS(5));
	sim.gpu_live_bytes = MIB(100);
	sim_pass(&sim, SECONDS(5));
	cr_expect_leq(sim.plan.next_tick_ns, SECONDS(1) + MS(200));
	for (int i = 0; i < 20; i++) {
		uint64_t ticks = sim.ticks_count;

		sim.gpu_live_bytes = i & 1 ? MIB(100) : MIB(10);
		sim_pass(&sim, SECONDS(3));
		cr_expect_geq(sim.ticks_count - ticks, 6);
	}
	cr_expect_eq(sim.rounds_count, 10);
	cr_expect_eq(sim.purges_count, 0);
}
