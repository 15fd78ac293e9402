/* test_limit.c -- ctl/process/limit.h: which cgroup a process is held to, by groups that are given
 * and by mounts that are not the usual one. */
#include "cgroup_files.h"

#include "ctl/process/limit.h"

TestSuite(limit, .init = begin_cgroup, .fini = end);

static void expect_of(const struct mt_limit *limit, uint64_t used_mb, uint64_t limit_mb)
{
	cr_expect_eq(limit->used_bytes, used_mb * MB, "%lu",
		     (unsigned long)(limit->used_bytes / MB));
	cr_expect_eq(limit->limit_bytes, limit_mb * MB, "%lu",
		     (unsigned long)(limit->limit_bytes / MB));
}

static void expect_mb(uint64_t used_mb, uint64_t limit_mb)
{
	struct mt_limit limit = {0};

	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_of(&limit, used_mb, limit_mb);
}

/* The file without the root of the test. */
static void expect_source(const struct mt_limit *limit, const char *source)
{
	size_t skipped = strncmp(limit->source, root, strlen(root)) == 0 ? strlen(root) : 0;

	cr_expect_str_eq(limit->source + skipped, source);
	cr_expect_eq(limit->is_cgroup, strstr(source, "/memory.") != NULL);
}

/* ---- the shim and mtctl ---- */

/* Each puts cgroups below the root, and the settings into `config`. */
static void nested_v1(void)
{
	in_v1("/a/b/c");
	v1_group(V1_MOUNT "/a/b/c", 500, 4000, 100);
	v1_group(V1_MOUNT "/a/b", 700, 1000, 50);
	v1_group(V1_MOUNT "/a", 900, 8000, 0);
}

static void nested_v2_with_high(void)
{
	in_v2("/a/b/c");
	v2_group(V2_MOUNT "/a/b/c", 500, 4000, 0, 100);
	v2_group(V2_MOUNT "/a/b", 700, 3000, 800, 50);
	v2_group(V2_MOUNT "/a", 900, 8000, 0, 0);
}

static void v1_root_without_a_machine(void)
{
	in_v1("/");
	put("/proc/meminfo", "MemFree: 1 kB\n");
}

static void limit_beyond_64_bits(void)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	put(V2_MOUNT "/a/memory.max", "99999999999999999999\n");
}

static void limit_of_zero_and_high(void)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 600, 0);
	put(V2_MOUNT "/a/memory.max", "0\n");
}

static void number_with_a_blank(void)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a/b", 500, 600, 0, 0);
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	put(V2_MOUNT "/a/b/memory.max", "629145600 \n");
}

static void own_group_that_is_hidden(void)
{
	in_v2("/hidden/inner");
	v2_group(V2_MOUNT "/hidden", 100, 200, 0, 20);
}

static void given_group(void)
{
	nested_v1();
	v1_group("/else/where", 300, 400, 30);
	strcpy(config.cgroup, "/else/where");
}

static void limit_of_the_setting(void)
{
	nested_v2_with_high();
	config.limit_mb = 450;
}

static void setting_without_a_group(void)
{
	in_v2("/");
	config.limit_mb = 13000;
}

static const struct machine {
	const char *name;
	void (*put)(void);
} machines[] = {
	{"nested v1", nested_v1},
	{"nested v2 with memory.high", nested_v2_with_high},
	{"the root of v1, MemTotal unknown", v1_root_without_a_machine},
	{"a limit beyond 64 bits", limit_beyond_64_bits},
	{"a limit of 0, and memory.high", limit_of_zero_and_high},
	{"a number with a blank behind it", number_with_a_blank},
	{"a group that is hidden", own_group_that_is_hidden},
	{"MT_CGROUP", given_group},
	{"MT_LIMIT_MB", limit_of_the_setting},
	{"MT_LIMIT_MB without a group", setting_without_a_group},
};

static void compare(const struct machine *machine)
{
	struct mt_limit limit = {0};
	struct mt_cgroup_sample sample;
	struct mt_limit_request request = {.root = root};
	enum mt_err error;

	machine->put();
	request.limit_mb = config.limit_mb;
	request.directory = *config.cgroup ? config.cgroup : NULL;
	sample = look_at(0);
	error = mt_limit_find_by(&request, &limit);
	cr_expect_eq(error == MT_ERR_OK, sample.limit_bytes != 0, "%s", machine->name);
	cr_expect_eq(limit.limit_bytes, sample.limit_bytes, "%s: %" PRIu64 " and %" PRIu64,
		     machine->name, limit.limit_bytes, sample.limit_bytes);
	cr_expect_eq(limit.used_bytes, sample.used_bytes, "%s: %" PRIu64 " and %" PRIu64,
		     machine->name, limit.used_bytes, sample.used_bytes);
	cr_expect_eq(limit.is_cgroup, sample.is_cgroup, "%s", machine->name);
}

Test(limit, the_shim_and_mtctl_find_the_same)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		end();
		begin_cgroup();
		compare(&machines[i]);
	}
}

Test(limit, an_mt_cgroup_that_the_shim_refuses_is_none_for_mtctl)
{
	char path[400] = "/";
	struct mt_limit limit;

	memset(path + 1, 'x', 260);
	path[130] = '/';
	v2_group(path, 300, 400, 0, 0);
	cr_expect_eq(mt_limit_find_in(root, path, &limit), MT_ERR_INVALID);
	cr_expect_eq(mt_limit_find_in(root, "/nowhere", &limit), MT_ERR_INVALID);
}

/* ---- what counts ---- */

static void nested_with_high(void)
{
	v2_group(V2_MOUNT "/a/b", 5000, 10000, 0, 1000);
	v2_group(V2_MOUNT "/a", 9000, 0, 12000, 500);
}

Test(limit, of_all_groups_of_a_process_the_one_nearest_to_its_limit_counts)
{
	struct mt_limit limit;

	in_v2("/elsewhere");
	put("/proc/77/cgroup", "0::/a/b\n");
	nested_with_high();
	cr_assert_eq(mt_limit_find(root, 77, &limit), MT_ERR_OK);
	expect_of(&limit, 8500, 12000);
	expect_source(&limit, V2_MOUNT "/a/memory.high");
}

Test(limit, without_a_cgroup_or_without_its_limit_the_machine_counts)
{
	struct mt_limit limit;

	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", "%s", "");
	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_of(&limit, 12288, 16384);
	expect_source(&limit, "/proc/meminfo");

	in_v2("/a");
	v2_group(V2_MOUNT "/a", 9000, 0, 0, 0);
	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_source(&limit, "/proc/meminfo");
}

Test(limit, of_version_1_nearly_2_to_the_63_is_no_limit)
{
	struct mt_limit limit;

	in_v1("/a");
	v1_group(V1_MOUNT "/a", 9000, 0, 0);
	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_source(&limit, "/proc/meminfo");

	v1_group(V1_MOUNT "/a", 9000, 16000, 4000);
	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_of(&limit, 5000, 16000);
	expect_source(&limit, V1_MOUNT "/a/memory.limit_in_bytes");
}

Test(limit, in_a_container_the_mount_of_version_1_is_the_group_itself)
{
	struct mt_limit limit;

	put("/proc/self/cgroup", "3:memory:/docker/abc\n");
	put("/proc/self/mountinfo",
	    "35 31 0:32 /docker/abc %s rw,relatime - cgroup cgroup rw,memory\n", V1_MOUNT);
	v1_group(V1_MOUNT, 700, 1000, 100);
	cr_assert_eq(mt_limit_find(root, 0, &limit), MT_ERR_OK);
	expect_of(&limit, 600, 1000);
	expect_source(&limit, V1_MOUNT "/memory.limit_in_bytes");
}

Test(limit, a_given_group_counts_with_those_above_it)
{
	static const char *const names[] = {"/a/b", "/a/b//", "/a"};
	struct mt_limit limit;

	nested_with_high();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char directory[64];

		snprintf(directory, sizeof(directory), "%s%s", V2_MOUNT, names[i]);
		cr_assert_eq(mt_limit_find_in(root, directory, &limit), MT_ERR_OK, "%s", directory);
		expect_of(&limit, 8500, 12000);
		expect_source(&limit, V2_MOUNT "/a/memory.high");
	}
	v1_group(V1_MOUNT "/x", 9000, 16000, 4000);
	cr_assert_eq(mt_limit_find_in(root, V1_MOUNT "/x", &limit), MT_ERR_OK);
	expect_of(&limit, 5000, 16000);
	expect_source(&limit, V1_MOUNT "/x/memory.limit_in_bytes");
}

Test(limit, a_given_group_without_a_limit_is_the_machine_and_what_is_no_group_is_refused)
{
	static const char *const none[] = {"/",      "",         "sys/fs/cgroup/a",
					   V2_MOUNT, "/no/such", "/proc"};
	struct mt_limit limit;

	v2_group(V2_MOUNT "/a", 9000, 0, 0, 0);
	cr_assert_eq(mt_limit_find_in(root, V2_MOUNT "/a", &limit), MT_ERR_OK);
	expect_of(&limit, 12288, 16384);
	expect_source(&limit, "/proc/meminfo");

	v2_group(V2_MOUNT "/a", 9000, 10000, 0, 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_expect_eq(mt_limit_find_in(root, none[i], &limit), MT_ERR_INVALID, "'%s'",
			     none[i]);
}

/* ---- mounts ---- */

Test(limit, a_mount_point_with_a_blank_in_its_name_is_found)
{
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/self/mountinfo", "30 22 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n");
	v2_group("/mnt/my groups/job", 100, 200, 0, 0);
	expect_mb(100, 200);
}

Test(limit, of_two_mounts_the_one_that_shows_the_group_counts)
{
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/self/mountinfo", "30 22 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n"
				    "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	v2_group("/mnt/other", 900, 1000, 0, 0);
	v2_group("/sys/fs/cgroup/job", 100, 200, 0, 0);
	expect_mb(100, 200);
}

Test(limit, a_mount_that_does_not_show_the_group_stands_for_it)
{
	put("/proc/self/cgroup", "0::/docker/abc\n");
	put("/proc/self/mountinfo",
	    "31 22 0:26 /docker/xyz /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	v2_group("/sys/fs/cgroup", 100, 200, 0, 0);
	expect_mb(100, 200);
	put("/proc/self/cgroup", "0::/../abc\n");
	put("/proc/self/mountinfo", "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	expect_mb(100, 200);
}

Test(limit, paths_without_a_slash_are_none)
{
	put("/proc/self/cgroup", "0::job\n4:memory:job\n");
	put("/proc/self/mountinfo", "30 22 0:26 root mount rw - cgroup2 cgroup2 rw\n"
				    "31 22 0:26 / mount rw - cgroup cgroup rw,memory\n");
	expect_mb(12288, 16384);
	put("/proc/self/mountinfo", "30 22 0:26 / /m rw - cgroup2 cgroup2 rw\n");
	expect_mb(12288, 16384);
}

Test(limit, what_follows_the_first_8_kb_of_a_statistic_is_not_read)
{
	static char text[8192 + 64];

	in_v2("/job");
	v2_group(V2_MOUNT "/job", 100, 200, 0, 0);
	memset(text, '\n', sizeof(text));
	memcpy(text + 8192 + 10, "inactive_file 1048576", 21);
	put_bytes("/sys/fs/cgroup/job/memory.stat", text, sizeof(text));
	expect_mb(100, 200);
	memcpy(text + 100, "inactive_file 1048576\n", 22);
	put_bytes("/sys/fs/cgroup/job/memory.stat", text, sizeof(text));
	expect_mb(99, 200);
}
