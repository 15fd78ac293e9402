/* test_pressure_text.c -- pressure/policy: what the log says of pressure. */
#include <criterion/criterion.h>
#include <string.h>

#include "sys/os.h"
#include "pressure/pressure_internal.h"

static struct mt_pressure_sample look;
static struct mt_pressure pressure;
static struct mt_pressure_plan plan;
static struct mt_pressure_report sample;

static void start(void)
{
	look = (struct mt_pressure_sample){
		.used_bytes = 447 * MT_MIB, .limit_bytes = 512 * MT_MIB, .exact = true};
	plan = (struct mt_pressure_plan){.clean = true, .cleanup = MT_LEVEL_HEAVY};
	sample =
		(struct mt_pressure_report){&look, &pressure, &plan, "/a/b/memory.max", 0, 1900, 2};
}

TestSuite(pressure_text, .init = start);

static void expect(const char *wanted)
{
	char text[600];

	mt_pressure_format(&sample, text, sizeof(text));
	cr_expect_str_eq(text, wanted, "%s", text);
}

Test(pressure_text, names_figures_and_what_is_done)
{
	look.devices_count = 1;
	look.devices[0] = (struct mt_pressure_device){0, 912, 1000};
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max), GPU 0 at 91.2 %, load "
	       "1.9 on 2 CPUs: heavy cleanup");
}

Test(pressure_text, names_each_thing_that_is_done)
{
	sample.cpus_count = 0;
	plan.cleanup = MT_LEVEL_PURGE;
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max): purge");
	plan.flush_gpu = true;
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max): purge, release of "
	       "idle device blocks");
	plan.clean = false;
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max): no cleanup until the "
	       "pause after the last one ends");
	plan.is_reduced = true;
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max): no cleanup, since "
	       "other processes of WORLD_SIZE would wait");
	plan.clean = true;
	expect("memory pressure: RAM at 87.3 % of 512 MB (/a/b/memory.max): purge only, since "
	       "other processes of WORLD_SIZE would wait");
}

Test(pressure_text, names_what_else_tells_of_pressure)
{
	look.limit_bytes = 0;
	sample.cpus_count = 0;
	pressure.levels[MT_PRESSURE_EVENTS] = MT_PRESSURE_CRITICAL;
	pressure.levels[MT_PRESSURE_STALL] = MT_PRESSURE_WARN;
	pressure.stall_thousandths = 142;
	expect("memory pressure: the container has reached its limit, tasks of this machine waited "
	       "14.2 % of the time for memory (PSI): heavy cleanup");
}

Test(pressure_text, begins_with_the_reason)
{
	pressure.levels[MT_PRESSURE_STALL] = MT_PRESSURE_WARN;
	pressure.stall_thousandths = 120;
	look.psi_is_own = true;
	plan.cleanup = MT_LEVEL_PURGE;
	expect("memory pressure: tasks of this cgroup waited 12.0 % of the time for memory (PSI); "
	       "RAM at 87.3 % of 512 MB (/a/b/memory.max), load 1.9 on 2 CPUs: purge");
	pressure.levels[MT_PRESSURE_STALL] = MT_PRESSURE_NONE;
	pressure.levels[MT_PRESSURE_DEVICE] = MT_PRESSURE_WARN;
	pressure.device_levels[1] = MT_PRESSURE_WARN;
	look.devices_count = 2;
	look.devices[0] = (struct mt_pressure_device){0, 100, 1000};
	look.devices[1] = (struct mt_pressure_device){1, 870, 1000};
	expect("memory pressure: GPU 1 at 87.0 %; RAM at 87.3 % of 512 MB (/a/b/memory.max), "
	       "GPU 0 at 10.0 %, load 1.9 on 2 CPUs: purge");
}

Test(pressure_text, names_the_own_limit)
{
	look.limit_bytes = 0;
	look.own_bytes = 570 * MT_MIB;
	sample.own_limit_bytes = 600 * MT_MIB;
	expect("memory pressure: this process at 95.0 % of MT_RSS_LIMIT_MB=600, load 1.9 on 2 "
	       "CPUs: heavy cleanup");
}

Test(pressure_text, says_that_it_is_over)
{
	plan = (struct mt_pressure_plan){.over = true};
	expect("memory pressure is over: RAM at 87.3 % of 512 MB (/a/b/memory.max), load 1.9 on 2 "
	       "CPUs");
}

Test(pressure_text, is_cut_to_fit)
{
	char text[32];

	memset(text, 'x', sizeof(text));
	mt_pressure_format(&sample, text, sizeof(text));
	cr_expect_str_eq(text, "memory pressure: RAM at 87.3 % ");
}
