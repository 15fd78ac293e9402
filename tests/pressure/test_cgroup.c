/* test_cgroup.c -- core/cgroup: the limits of version 2, of version 1, of both at once and of
 * none, in files of our own. */
#include "cgroup_files.h"

#include <sys/sysinfo.h>

TestSuite(cgroup, .init = begin_cgroup, .fini = end);

/* ---- version 2 ---- */

Test(cgroup, the_limit_of_its_own_group_is_found)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/a/memory.max");
	cr_expect_not(look().exact, "far from it an upper bound will do");
}

Test(cgroup, high_is_a_limit_and_the_smaller_of_the_two_counts)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 700, 0);
	expect(500, 700, V2_MOUNT "/a/memory.high");
	now_ns += 60 * S;
	v2_group(V2_MOUNT "/a", 500, 600, 700, 0);
	expect(500, 600, V2_MOUNT "/a/memory.max");
	now_ns += 60 * S;
	v2_group(V2_MOUNT "/a", 500, 0, 800, 0);
	expect(500, 800, V2_MOUNT "/a/memory.high");
}

Test(cgroup, of_all_groups_above_the_one_that_is_nearest_to_its_limit_wins)
{
	in_v2("/a/b/c");
	v2_group(V2_MOUNT "/a", 900, 1100, 0, 0);
	v2_group(V2_MOUNT "/a/b", 700, 1000, 0, 0);
	v2_group(V2_MOUNT "/a/b/c", 50, 500, 0, 0);
	expect(900, 1100, V2_MOUNT "/a/memory.max");
	put_in(V2_MOUNT "/a/b", "memory.current", mb(990));
	expect(990, 1000, V2_MOUNT "/a/b/memory.max");
	put_in(V2_MOUNT "/a/b/c", "memory.current", mb(499));
	expect(499, 500, V2_MOUNT "/a/b/c/memory.max");
}

/* A container in a container in a pod: 40 levels, of which the outermost has the limit; and more
 * than are kept. */
Test(cgroup, the_limit_of_a_group_far_above_is_found)
{
	char path[200] = "/top";

	v2_group(V2_MOUNT "/top", 900, 1100, 0, 0);
	for (int level = 1; level < 80; level++) {
		char full[300];

		strcat(path, "/a");
		snprintf(full, sizeof(full), V2_MOUNT "%s", path);
		put_in(full, "memory.current", mb(10));
		put_in(full, "memory.max", "max\n");
		if (level != 40)
			continue;
		in_v2(path);
		expect(900, 1100, V2_MOUNT "/top/memory.max");
	}
	in_v2(path);
	mt_cgroup_of(0);
	cr_expect_not(look().is_cgroup, "the machine's");
}

Test(cgroup, file_pages_that_can_go_at_once_do_not_count_once_it_matters)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 950, 1000, 0, 300);
	cr_expect(look().exact);
	expect(650, 1000, V2_MOUNT "/a/memory.max");
	put_in(V2_MOUNT "/a", "memory.current", mb(790));
	cr_expect_not(look().exact);
	expect(790, 1000, V2_MOUNT "/a/memory.max");
	cr_expect_eq(look_at(79).used_bytes, 490 * MB, "at the percentage it is wanted");
	cr_expect_eq(look_at(0).used_bytes, 490 * MB);
}

Test(cgroup, a_full_page_cache_above_does_not_hide_a_limit_that_is_really_near)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 1990, 2000, 0, 1500);
	v2_group(V2_MOUNT "/a/b", 850, 1000, 0, 10);
	expect(840, 1000, V2_MOUNT "/a/b/memory.max");
}

Test(cgroup, far_from_the_limit_nobody_reads_memory_stat)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 799, 1000, 0, 799);
	expect(799, 1000, V2_MOUNT "/a/memory.max");
	/* It would have read 0 of it. And where it is to be had no more, what is far away stays as
	 * it was. */
	drop(V2_MOUNT "/a/memory.stat");
	expect(799, 1000, V2_MOUNT "/a/memory.max");
	put_in(V2_MOUNT "/a", "memory.current", mb(900));
	expect(900, 1000, V2_MOUNT "/a/memory.max");
	cr_expect_not(look().exact, "without memory.stat it stays a bound");
}

Test(cgroup, more_inactive_pages_than_usage_are_all_of_it)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 900, 1000, 0, 5000);
	expect(0, 1000, V2_MOUNT "/a/memory.max");
}

Test(cgroup, max_is_no_limit_and_the_machine_is_what_is_left)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 500, 0, 0, 0);
	v2_group(V2_MOUNT "/a/b", 500, 0, 0, 0);
	expect_machine();
	cr_expect_not(look().events_known);
}

Test(cgroup, a_limit_that_the_machine_does_not_have_is_none)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 16384, 0, 0);
	expect_machine();
	now_ns += 60 * S;
	v2_group(V2_MOUNT "/a", 500, 16383, 0, 0);
	expect(500, 16383, V2_MOUNT "/a/memory.max");
}

Test(cgroup, groups_without_the_memory_controller_are_passed_over)
{
	in_v2("/user.slice/session.scope/x");
	v2_group(V2_MOUNT "/user.slice", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/user.slice/session.scope/x", "cgroup.procs", "1\n");
	expect(500, 1000, V2_MOUNT "/user.slice/memory.max");
}

Test(cgroup, files_without_a_newline_at_their_end_are_as_good)
{
	put("/proc/self/cgroup", "0::/a");
	put("/proc/self/mountinfo", "30 22 0:26 / %s rw - cgroup2 cgroup2 rw", V2_MOUNT);
	put(V2_MOUNT "/a/memory.current", "%llu", 900 * MB);
	put(V2_MOUNT "/a/memory.max", "%llu", 1000 * MB);
	put(V2_MOUNT "/a/memory.stat", "inactive_file %llu", 100 * MB);
	expect(800, 1000, V2_MOUNT "/a/memory.max");
}

Test(cgroup, the_directory_for_pressure_is_that_of_version_2)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a/b", 500, 1000, 0, 0);
	look();
	cr_expect_str_eq(mt_cgroup_directory(), in_root(V2_MOUNT "/a/b"));
}

/* ---- containers ---- */

Test(cgroup, a_mount_whose_root_is_the_group_shows_it_and_nothing_above)
{
	put("/proc/self/cgroup", "0::/docker/abc\n");
	put("/proc/self/mountinfo", "30 22 0:26 /docker/abc %s ro - cgroup2 cgroup ro\n", V2_MOUNT);
	v2_group(V2_MOUNT, 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/memory.max");
}

Test(cgroup, groups_below_the_root_of_the_mount_count_up_to_it)
{
	put("/proc/self/cgroup", "0::/docker/abc/inner/most\n");
	put("/proc/self/mountinfo", "30 22 0:26 /docker/abc %s ro - cgroup2 cgroup ro\n", V2_MOUNT);
	v2_group(V2_MOUNT, 900, 1000, 0, 0);
	v2_group(V2_MOUNT "/inner", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/inner/most", 400, 2000, 0, 0);
	expect(900, 1000, V2_MOUNT "/memory.max");
	cr_expect_str_eq(mt_cgroup_directory(), in_root(V2_MOUNT "/inner/most"));
}

Test(cgroup, in_a_cgroup_namespace_the_mount_is_its_own_group)
{
	in_v2("/");
	v2_group(V2_MOUNT, 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/memory.max");
}

Test(cgroup, a_path_that_leads_out_of_the_namespace_stands_for_the_mount)
{
	static const char *const paths[] = {"/..", "/../sibling", "/../../x/y"};

	for (size_t i = 0; i < 3; i++) {
		mt_cgroup_of(0);
		in_v2(paths[i]);
		v2_group(V2_MOUNT, 500, 1000, 0, 0);
		v2_group("/sys/fs/sibling", 1, 1, 0, 0);
		expect(500, 1000, V2_MOUNT "/memory.max");
	}
}

Test(cgroup, a_mount_from_above_the_namespace_is_followed_down)
{
	put("/proc/self/cgroup", "0::/../x/y\n");
	put("/proc/self/mountinfo", "30 22 0:26 /.. %s ro - cgroup2 cgroup ro\n", V2_MOUNT);
	v2_group(V2_MOUNT "/x/y", 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/x/y/memory.max");
}

Test(cgroup, a_name_that_begins_like_the_root_of_the_mount_is_another)
{
	put("/proc/self/cgroup", "0::/docker/abcdef\n");
	put("/proc/self/mountinfo",
	    "30 22 0:26 /docker/abc /other ro - cgroup2 cgroup ro\n"
	    "31 22 0:26 / %s ro - cgroup2 cgroup ro\n",
	    V2_MOUNT);
	v2_group("/other", 1, 2, 0, 0);
	v2_group(V2_MOUNT "/docker/abcdef", 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/docker/abcdef/memory.max");
}

Test(cgroup, a_path_that_the_container_cannot_see_leaves_what_is_above_it)
{
	in_v2("/docker/abc");
	v2_group(V2_MOUNT, 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/memory.max");
}

Test(cgroup, a_mount_point_may_have_blanks_in_it)
{
	put("/proc/self/cgroup", "0::/a b\n");
	put("/proc/self/mountinfo", "30 22 0:26 / /my\\040cgroup ro - cgroup2 cgroup ro\n");
	v2_group("/my cgroup/a b", 500, 1000, 0, 0);
	expect(500, 1000, "/my cgroup/a b/memory.max");
}

Test(cgroup, a_thousand_mounts_and_lines_of_any_length_are_read_past)
{
	static char text[200000];
	size_t length = 0;

	for (int i = 0; i < 1000; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   "%d 22 0:%d / /overlay/%d rw - overlay overlay rw,"
					   "lowerdir=/var/lib/x:/var/lib/y\n",
					   i, i, i);
	memset(text + length, 'x', 20000);
	length += 20000;
	length += (size_t)snprintf(text + length, sizeof(text) - length,
				   " 22 0:26 / /cut rw - cgroup2 cgroup2 rw\n"
				   "30 22 0:26 / %s rw - cgroup2 cgroup2 rw\n",
				   V2_MOUNT);
	v2_group("/cut/a", 1, 1, 0, 0);
	in_v2("/a");
	put_bytes("/proc/self/mountinfo", text, length);
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/a/memory.max");
}

/* ---- version 1 ---- */

Test(cgroup, version_1_is_found_where_version_2_is_mounted_without_controllers)
{
	in_v1("/job/1");
	v1_group(V1_MOUNT "/job", 900, 0, 0);
	v1_group(V1_MOUNT "/job/1", 500, 1000, 0);
	expect(500, 1000, V1_MOUNT "/job/1/memory.limit_in_bytes");
	cr_expect_str_eq(mt_cgroup_directory(), in_root("/sys/fs/cgroup/unified"),
			 "where memory.pressure is");
}

Test(cgroup, limits_of_version_1_hold_for_all_below)
{
	in_v1("/job/1");
	v1_group(V1_MOUNT "/job", 950, 1000, 100);
	v1_group(V1_MOUNT "/job/1", 500, 1000, 0);
	expect(850, 1000, V1_MOUNT "/job/memory.limit_in_bytes");
}

Test(cgroup, nearly_2_to_the_63_is_no_limit)
{
	in_v1("/job");
	v1_group(V1_MOUNT "/job", 500, 0, 0);
	expect_machine();
	drop("/proc/meminfo");
	mt_cgroup_of(0);
	cr_expect_eq(look().limit_bytes, 0, "not even where the machine's memory is unknown");
}

Test(cgroup, the_root_of_version_1_is_no_group)
{
	in_v1("/");
	put_in(V1_MOUNT, "memory.limit_in_bytes", mb(1000));
	config.limit_mb = 2000;
	expect(12288, 2000, "MT_LIMIT_MB");
	cr_expect_not(look().is_cgroup);
}

Test(cgroup, in_a_container_the_mount_of_version_1_is_a_group)
{
	in_v1("/");
	drop(V1_MOUNT "/release_agent");
	v1_group(V1_MOUNT, 500, 1000, 0);
	expect(500, 1000, V1_MOUNT "/memory.limit_in_bytes");
}

/* ---- MT_LIMIT_MB ---- */

Test(cgroup, mt_limit_mb_is_held_against_the_usage_of_its_own_group)
{
	struct mt_cgroup_sample out;

	in_v1("/job/1");
	v1_group(V1_MOUNT "/job", 9000, 0, 0);
	v1_group(V1_MOUNT "/job/1", 950, 0, 50);
	put_in(V1_MOUNT "/job/1", "memory.failcnt", "7\n"); /* nobody runs into a setting */
	config.limit_mb = 1000;
	out = look();
	cr_expect_eq(out.used_bytes, 900 * MB);
	cr_expect_eq(out.limit_bytes, 1000 * MB);
	cr_expect(out.is_cgroup && out.exact && !out.events_known);
	cr_expect_str_eq(out.source, "MT_LIMIT_MB");
}

Test(cgroup, mt_limit_mb_does_not_lift_a_limit)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	config.limit_mb = 2000;
	expect(500, 1000, V2_MOUNT "/a/memory.max");
	config.limit_mb = 600;
	cr_expect_eq(look().limit_bytes, 600 * MB, "it may be set at any time");
	config.limit_mb = 1000000;
	cr_expect_eq(look().limit_bytes, 1000 * MB, "more than the machine has");
	v2_group(V2_MOUNT "/a", 500, 0, 0, 0);
	now_ns += 60 * S;
	expect_machine();
}

Test(cgroup, mt_limit_mb_without_a_group_is_held_against_the_machine)
{
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", "30 22 0:26 / %s rw - cgroup2 cgroup2 rw\n", V2_MOUNT);
	config.limit_mb = 14000;
	expect(12288, 14000, "MT_LIMIT_MB");
	config.limit_mb = 1000000;
	expect_machine();
}

/* ---- the machine ---- */

Test(cgroup, without_any_cgroup_the_machine_is_what_counts)
{
	expect_machine();
	cr_expect(look().exact);
	cr_expect_str_empty(mt_cgroup_directory());
}

Test(cgroup, nothing_readable_is_nothing_known)
{
	struct mt_cgroup_sample out;

	drop("/proc/meminfo");
	out = look();
	cr_expect_eq(out.limit_bytes, 0);
	cr_expect_eq(out.used_bytes, 0);
	cr_expect_str_empty(out.source);
	cr_expect_not(out.is_cgroup || out.exact || out.events_known);
	put("/proc/meminfo", "MemTotal: 1000\nMemAvailable: 5 kB\n");
	now_ns += 60 * S;
	cr_expect_eq(look().limit_bytes, 0, "a figure without its unit");
}

Test(cgroup, this_very_process_has_a_limit_somewhere)
{
	struct mt_cgroup_sample out;

	mt_cgroup_read("", &config, now_ns, 0, &out);
	cr_expect_gt(out.limit_bytes, 0);
	cr_expect_gt(out.used_bytes, 0);
	cr_expect_leq(out.used_bytes, out.limit_bytes);
	cr_expect_gt(strlen(out.source), 0);
}

/* ---- MT_CGROUP ---- */

Test(cgroup, mt_cgroup_names_the_directory_to_go_by)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group("/else/where", 700, 2000, 0, 0);
	strcpy(config.cgroup, "/else/where/");
	expect(700, 2000, "/else/where/memory.max");
	cr_expect_str_eq(mt_cgroup_directory(), in_root("/else/where"));
}

Test(cgroup, above_mt_cgroup_directories_count_as_long_as_they_are_groups)
{
	v2_group("/x", 990, 1000, 0, 0);
	put("/x/gap/cgroup.procs", "1\n");
	v2_group("/x/gap/b", 800, 1000, 0, 0);
	v2_group("/x/gap/b/c", 100, 0, 0, 0);
	strcpy(config.cgroup, "/x/gap/b/c");
	expect(800, 1000, "/x/gap/b/memory.max");
}

Test(cgroup, mt_cgroup_takes_version_1_as_well)
{
	v1_group("/x/y", 900, 1000, 100);
	put("/x/y/memory.failcnt", "3\n");
	strcpy(config.cgroup, "/x/y");
	expect(800, 1000, "/x/y/memory.limit_in_bytes");
	cr_expect(look().events_known);
	cr_expect_eq(look().events_count, 3);
}

Test(cgroup, an_mt_cgroup_that_is_none_leaves_its_own)
{
	static const char *const wrong[] = {"/nowhere", "relative", "/proc/self", "/"};

	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	for (size_t i = 0; i < 4; i++) {
		mt_cgroup_of(0);
		strcpy(config.cgroup, wrong[i]);
		expect(500, 1000, V2_MOUNT "/a/memory.max");
		cr_expect_str_eq(mt_cgroup_directory(), in_root(V2_MOUNT "/a"));
	}
}
