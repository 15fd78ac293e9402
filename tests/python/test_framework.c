/* test_framework.c -- when what PyTorch's cache holds unused is released. */
#include <criterion/criterion.h>

#include <string.h>

#include "sys/os.h"
#include "python/python.h"
#include "python/python_internal.h"
#include "core/core_internal.h"

static struct mt_framework_policy policy;
static struct mt_config cfg;

static void setup(void)
{
	memset(&policy, 0, sizeof(policy));
	mt_config_defaults(&cfg);
	cfg.framework_decay_ms = 1000;
	cfg.slack_mb = 64;
	cfg.slack_pct = 10;
}

static struct mt_python_gpu_figures figures(uint64_t reserved_mb, uint64_t allocated_mb)
{
	return (struct mt_python_gpu_figures){
		.count = 1,
		.devices[0] = {.reserved_bytes = reserved_mb * MT_MIB,
			       .allocated_bytes = allocated_mb * MT_MIB}};
}

static bool at(uint64_t ms, struct mt_python_gpu_figures seen)
{
	return mt_framework_decide(&policy, &seen, &cfg, ms * MT_NS_PER_MS);
}

TestSuite(framework, .init = setup);

Test(framework, releases_what_stayed_unused_for_the_whole_time_and_then_begins_anew)
{
	cr_expect_not(at(5000, figures(500, 100)));
	cr_expect_not(at(5500, figures(500, 100)));
	cr_expect_not(at(5999, figures(500, 100)));
	cr_expect(at(6000, figures(500, 100)));
	cr_expect_not(at(6500, figures(500, 100)));
	cr_expect(at(7500, figures(500, 100)));
}

Test(framework, keeps_what_was_used_in_between)
{
	cr_expect_not(at(5000, figures(500, 100)));
	cr_expect_not(at(5500, figures(500, 480)));
	cr_expect_not(at(6000, figures(500, 100)));
	cr_expect_not(at(6900, figures(500, 100)));
	cr_expect(at(7000, figures(500, 100)));
}

Test(framework, the_gate_is_the_larger_of_bytes_and_share)
{
	for (uint64_t ms = 5000; ms <= 20000; ms += 500) {
		cr_expect_not(at(ms, figures(164, 100)), "64 MB are the slack");
		cr_expect_not(at(ms, figures(10000, 9001)), "10 %% are the slack");
	}
	cr_expect_not(at(30000, figures(165, 100)));
	cr_expect(at(31000, figures(165, 100)));
}

Test(framework, each_device_has_a_time_of_its_own)
{
	struct mt_python_gpu_figures two = figures(500, 100);

	two.count = 2;
	two.devices[1].reserved_bytes = two.devices[1].allocated_bytes = 100 * MT_MIB;
	cr_expect_not(at(5000, two));
	two.devices[0].allocated_bytes = 500 * MT_MIB;
	two.devices[1].allocated_bytes = 0;
	cr_expect_not(at(6000, two));
	two.devices[1].allocated_bytes = 0;
	cr_expect(at(7000, two));
}

Test(framework, figures_that_contradict_themselves_are_no_idle_bytes)
{
	for (uint64_t ms = 5000; ms <= 20000; ms += 500) {
		cr_expect_not(at(ms, figures(100, 500)));
		cr_expect_not(at(ms, (struct mt_python_gpu_figures){0}));
	}
}
