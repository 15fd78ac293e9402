/* test_cgroup_path.c -- core/cgroup: numbers and keys as files hold them, and the way up in a
 * hierarchy. */
#include "cgroup_files.h"

#include "core/cgroup.h"
#include "core/core_internal.h"

TestSuite(place, .init = begin_cgroup, .fini = end);

Test(place, numbers_are_whole_or_none)
{
	static const struct {
		const char *text;
		bool valid;
		uint64_t number;
	} rows[] = {
		{"0", true, 0},
		{"7\n", true, 7},
		{"18446744073709551615\n", true, UINT64_MAX},
		{"18446744073709551616\n", true, UINT64_MAX},
		{"99999999999999999999999", true, UINT64_MAX},
		{"18446744073709551614", true, UINT64_MAX - 1},
		{"", false, 0},
		{"\n", false, 0},
		{"max", false, 0},
		{"-1", false, 0},
		{"+1", false, 0},
		{" 1", false, 0},
		{"1 ", false, 0},
		{"1.5", false, 0},
		{"1k", false, 0},
		{"1\r\n", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t number = 42;

		cr_expect_eq(mt_cgroup_path_number(rows[i].text, &number), rows[i].valid, "'%s'",
			     rows[i].text);
		cr_expect_eq(number, rows[i].valid ? rows[i].number : 42, "'%s'", rows[i].text);
	}
}

Test(place, a_key_is_a_whole_one_at_the_begin_of_a_line)
{
	uint64_t number = 42;

	cr_expect_not(mt_cgroup_path_keyed("xmax 1\noom_max 2", "max ", &number));
	cr_expect_not(mt_cgroup_path_keyed("max\n1", "max ", &number));
	cr_expect_not(mt_cgroup_path_keyed("", "max ", &number));
	cr_expect_eq(number, 42);
	cr_expect(mt_cgroup_path_keyed("high 1\nmax 5\n", "max ", &number));
	cr_expect_eq(number, 5);
}

Test(place, above_the_mount_point_there_is_nothing)
{
	struct mt_cgroup_path place;
	size_t length;

	in_v2("/a/b");
	cr_assert(mt_cgroup_path_find(root, 0, NULL, &place));
	length = mt_cgroup_path_parent(&place, place.length);
	cr_expect_eq(length, strlen(in_root(V2_MOUNT "/a")));
	length = mt_cgroup_path_parent(&place, length);
	cr_expect_eq(length, strlen(in_root(V2_MOUNT)));
	cr_expect_eq(mt_cgroup_path_parent(&place, length), 0);
}

Test(place, a_controller_is_a_whole_word)
{
	struct mt_cgroup_path place;

	in_v1("/job");
	cr_expect(mt_cgroup_path_find(root, 0, "memory", &place));
	cr_expect(mt_cgroup_path_find(root, 0, "cpu", &place));
	cr_expect_str_eq(place.directory, in_root(V1_MOUNT "/job"));
	cr_expect_not(mt_cgroup_path_find(root, 0, "mem", &place));
	cr_expect_not(mt_cgroup_path_find(root, 0, "cpuacct", &place));
}
