/* test_limit.c -- ctl/limit: which cgroup a process is held to, by mounts that are not the usual
 * one. */
#include "sense_files.h"

#include "ctl/process/limit.h"

TestSuite(limit, .init = begin, .fini = end);

#define MB ((uint64_t)1 << 20)

static void machine(void)
{
	put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    4194304 kB\n");
}

static void group(const char *directory, const char *used, const char *most)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/memory.current", directory);
	put(path, "%s\n", used);
	snprintf(path, sizeof(path), "%s/memory.max", directory);
	put(path, "%s\n", most);
}

static void expect(uint64_t used_mb, uint64_t limit_mb)
{
	struct mt_limit limit = {0};

	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	cr_expect_eq(limit.used_bytes, used_mb * MB, "%lu", (unsigned long)(limit.used_bytes / MB));
	cr_expect_eq(limit.limit_bytes, limit_mb * MB, "%lu",
		     (unsigned long)(limit.limit_bytes / MB));
}

Test(limit, a_mount_point_with_a_blank_in_its_name_is_found)
{
	machine();
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/self/mountinfo", "30 22 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n");
	group("/mnt/my groups/job", "104857600", "209715200");
	expect(100, 200);
}

Test(limit, of_two_mounts_the_one_that_shows_the_group_counts)
{
	machine();
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/self/mountinfo", "30 22 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n"
				    "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	group("/mnt/other", "943718400", "1048576000");
	group("/sys/fs/cgroup/job", "104857600", "209715200");
	expect(100, 200);
}

Test(limit, a_mount_that_does_not_show_the_group_stands_for_it)
{
	machine();
	put("/proc/self/cgroup", "0::/docker/abc\n");
	put("/proc/self/mountinfo",
	    "31 22 0:26 /docker/xyz /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	group("/sys/fs/cgroup", "104857600", "209715200");
	expect(100, 200);
	put("/proc/self/cgroup", "0::/../abc\n");
	put("/proc/self/mountinfo", "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	expect(100, 200);
}

Test(limit, paths_without_a_slash_are_none)
{
	machine();
	put("/proc/self/cgroup", "0::job\n4:memory:job\n");
	put("/proc/self/mountinfo", "30 22 0:26 root mount rw - cgroup2 cgroup2 rw\n"
				    "31 22 0:26 / mount rw - cgroup cgroup rw,memory\n");
	expect(12288, 16384);
	put("/proc/self/mountinfo", "30 22 0:26 / /m rw - cgroup2 cgroup2 rw\n");
	expect(12288, 16384);
}

Test(limit, what_follows_the_first_64_kb_of_a_statistic_is_not_read)
{
	static char text[MT_CGROUP_FILE_MAX + 64];

	machine();
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/self/mountinfo", "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	group("/sys/fs/cgroup/job", "104857600", "209715200");
	memset(text, '\n', sizeof(text));
	memcpy(text + MT_CGROUP_FILE_MAX + 10, "inactive_file 1048576", 21);
	put_bytes("/sys/fs/cgroup/job/memory.stat", text, sizeof(text));
	expect(100, 200);
	memcpy(text + 100, "inactive_file 1048576\n", 22);
	put_bytes("/sys/fs/cgroup/job/memory.stat", text, sizeof(text));
	expect(99, 200);
}
