/* test_load.c -- core/cgroup: the load average, and the CPUs that quotas and affinity leave. */
#include "sense_files.h"

#include <sched.h>

#include "sys/os.h"
#include "core/cgroup.h"
#include "core/core_internal.h"

#define MOUNT "/sys/fs/cgroup"
#define S     MT_NS_PER_S

static uint64_t now_ns, real_count;

static void begin_load(void)
{
	struct mt_load out;

	begin();
	now_ns = 1000 * S;
	mt_cgroup_load_read(root, now_ns, &out);
	real_count = out.cpus_count;
	mt_cgroup_load_fork_child();
}

TestSuite(load, .init = begin_load, .fini = end);

static struct mt_load look(void)
{
	struct mt_load out;

	memset(&out, 0x5a, sizeof(out));
	mt_cgroup_load_read(root, now_ns, &out);
	return out;
}

static uint64_t recount(void)
{
	mt_cgroup_load_fork_child();
	return look().cpus_count;
}

static uint64_t at_most(uint64_t count)
{
	return count < real_count ? count : real_count;
}

static void in_v2(const char *path)
{
	put("/proc/self/cgroup", "0::%s\n", path);
	put("/proc/self/mountinfo", "30 22 0:26 / %s rw - cgroup2 cgroup2 rw\n", MOUNT);
}

Test(load, the_load_is_the_first_figure)
{
	static const struct {
		const char *text;
		bool valid;
		uint64_t thousandths;
	} rows[] = {
		{"0.48 0.37 0.80 1/93 6653\n", true, 480},
		{"12.05 0.37 0.80 1/93 6653", true, 12050},
		{"0.00 0.00", true, 0},
		{"7 1 1\n", true, 7000},
		{"3.5", true, 3500},
		{"3.1415926 1 1", true, 3141},
		{"1000.25\n", true, 1000250},
		{"", false, 0},
		{" 1.0", false, 0},
		{"-1.0 1", false, 0},
		{".5 1", false, 0},
		{"5. 1", false, 0},
		{"1.2.3", false, 0},
		{"1,5", false, 0},
		{"nan", false, 0},
		{"18446744073709559 1", false, 0},
		{"99999999999999999999999 1", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t load = 42;

		cr_expect_eq(mt_cgroup_load_parse(rows[i].text, &load), rows[i].valid, "'%s'",
			     rows[i].text);
		cr_expect_eq(load, rows[i].valid ? rows[i].thousandths : 42, "'%s'", rows[i].text);
	}
}

Test(load, it_is_read_at_each_look)
{
	cr_expect_not(look().known);
	cr_expect_eq(look().load_thousandths, 0);
	put("/proc/loadavg", "0.48 0.37 0.80 1/93 6653\n");
	cr_expect(look().known);
	cr_expect_eq(look().load_thousandths, 480);
	put("/proc/loadavg", "2.50 0.37 0.80 1/93 6653\n");
	cr_expect_eq(look().load_thousandths, 2500);
}

Test(load, without_a_quota_it_is_the_affinity_that_counts)
{
	cpu_set_t one;

	cr_expect_geq(real_count, 1);
	cr_expect_leq(real_count, (uint64_t)sysconf(_SC_NPROCESSORS_CONF));
	cr_assert_eq(sched_getaffinity(0, sizeof(one), &one), 0);
	cr_expect_eq(real_count, (uint64_t)CPU_COUNT(&one));
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &one) && found++)
			CPU_CLR(cpu, &one);
	}
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_expect_eq(look().cpus_count, 1);
}

Test(load, a_quota_of_version_2_is_rounded_up)
{
	static const struct {
		const char *text;
		uint64_t count;
	} rows[] = {
		{"max 100000\n", UINT64_MAX}, {"100000 100000\n", 1},
		{"50000 100000\n", 1},        {"100001 100000\n", 2},
		{"150000 100000", 2},         {"1000 1000000\n", 1},
		{"6400000 100000\n", 64},     {"", UINT64_MAX},
		{"100000\n", UINT64_MAX},     {"0 100000\n", UINT64_MAX},
		{"100000 0\n", UINT64_MAX},   {"-1 100000\n", UINT64_MAX},
		{"what ever\n", UINT64_MAX},  {"99999999999999999999999 1\n", UINT64_MAX},
	};

	in_v2("/a");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(MOUNT "/a/cpu.max", "%s", rows[i].text);
		cr_expect_eq(recount(), at_most(rows[i].count), "'%s'", rows[i].text);
	}
}

Test(load, the_smallest_quota_of_all_above_counts)
{
	in_v2("/a/b");
	put(MOUNT "/a/cpu.max", "100000 100000\n");
	put(MOUNT "/a/b/cpu.max", "max 100000\n");
	cr_expect_eq(recount(), 1);
	put(MOUNT "/a/cpu.max", "max 100000\n");
	put(MOUNT "/a/b/cpu.max", "30000 100000\n");
	cr_expect_eq(recount(), 1);
}

Test(load, a_quota_of_version_1_counts_as_well)
{
	put("/proc/self/cgroup", "3:cpu,cpuacct:/job/1\n0::/\n");
	put("/proc/self/mountinfo", "32 31 0:29 / /sys/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
				    "41 31 0:38 / /sys/unified rw - cgroup2 cgroup2 rw\n");
	put("/sys/cpu/job/1/cpu.cfs_quota_us", "-1\n");
	put("/sys/cpu/job/1/cpu.cfs_period_us", "100000\n");
	put("/sys/cpu/job/cpu.cfs_quota_us", "-1\n");
	put("/sys/cpu/job/cpu.cfs_period_us", "100000\n");
	cr_expect_eq(recount(), real_count);
	put("/sys/cpu/job/cpu.cfs_quota_us", "50000\n");
	cr_expect_eq(recount(), 1);
	put("/sys/cpu/job/cpu.cfs_quota_us", "150000\n");
	cr_expect_eq(recount(), at_most(2));
	put("/sys/cpu/job/1/cpu.cfs_quota_us", "100000\n");
	cr_expect_eq(recount(), 1);
}

Test(load, a_quota_below_one_cpu_is_told_in_percent)
{
	in_v2("/a");
	put(MOUNT "/a/cpu.max", "25000 100000\n");
	(void)recount();
	cr_expect_eq(mt_cgroup_load_quota_pct(root, now_ns), 25);
	put(MOUNT "/a/cpu.max", "100 100000\n");
	(void)recount();
	cr_expect_eq(mt_cgroup_load_quota_pct(root, now_ns), 1);
	put(MOUNT "/a/cpu.max", "150000 100000\n");
	(void)recount();
	cr_expect_eq(mt_cgroup_load_quota_pct(root, now_ns), 100);
}

Test(load, cpus_are_counted_again_every_minute)
{
	in_v2("/a");
	put(MOUNT "/a/cpu.max", "100000 100000\n");
	cr_expect_eq(look().cpus_count, 1);
	put(MOUNT "/a/cpu.max", "max 100000\n");
	now_ns += 59 * S;
	cr_expect_eq(look().cpus_count, 1);
	now_ns += S;
	cr_expect_eq(look().cpus_count, real_count);
}

Test(load, cpu_time_of_the_process_grows_with_work)
{
	uint64_t began = mt_os_process_cpu_ns();
	volatile unsigned work = 0;

	cr_expect_gt(began, 0);
	while (mt_os_process_cpu_ns() - began < 20 * MT_NS_PER_MS)
		work++;
	cr_expect_gt(work, 0);
}
