/* test_cgroup_changes.c -- core/cgroup over time: limits that change, processes that are moved,
 * files that vanish or hold rubbish, events. */
#include "cgroup_files.h"

#include "core/cgroup.h"
#include "core/core_internal.h"

TestSuite(cgroup_changes, .init = begin_cgroup, .fini = end);

/* ---- time ---- */

Test(cgroup_changes, usage_is_read_at_each_look_and_limits_every_5_seconds)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	expect(500, 1000, V2_MOUNT "/a/memory.max");
	v2_group(V2_MOUNT "/a", 600, 900, 0, 0);
	now_ns += 4 * S;
	expect(600, 1000, V2_MOUNT "/a/memory.max");
	now_ns += S;
	expect(600, 900, V2_MOUNT "/a/memory.max");
}

Test(cgroup_changes, a_process_that_is_moved_is_found_again_within_a_minute)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/b", 700, 2000, 0, 0);
	expect(500, 1000, V2_MOUNT "/a/memory.max");
	in_v2("/b");
	now_ns += 59 * S;
	expect(500, 1000, V2_MOUNT "/a/memory.max");
	now_ns += S;
	expect(700, 2000, V2_MOUNT "/b/memory.max");
}

Test(cgroup_changes, a_process_whose_group_is_gone_is_found_again_at_once)
{
	for (uint64_t seconds = 1; seconds <= 5; seconds += 4) {
		mt_cgroup_of(0);
		in_v2("/a");
		v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
		v2_group(V2_MOUNT "/b", 700, 2000, 0, 0);
		expect(500, 1000, V2_MOUNT "/a/memory.max");
		in_v2("/b");
		drop(V2_MOUNT "/a");
		now_ns += seconds * S;
		expect(700, 2000, V2_MOUNT "/b/memory.max");
	}
}

Test(cgroup_changes, a_file_that_holds_rubbish_for_a_moment_is_passed_over)
{
	static const char *const rubbish[] = {"",      "\n",   "max\n",  "-5\n",
					      "1e9\n", " 7\n", "0x10\n", "12 34\n"};

	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 600, 1000, 0, 0);
	v2_group(V2_MOUNT "/a/b", 500, 600, 0, 0);
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		put_in(V2_MOUNT "/a/b", "memory.current", mb(500));
		expect(500, 600, V2_MOUNT "/a/b/memory.max");
		put_in(V2_MOUNT "/a/b", "memory.current", rubbish[i]);
		expect(600, 1000, V2_MOUNT "/a/memory.max");
		now_ns += 2 * S;
		expect(600, 1000, V2_MOUNT "/a/memory.max");
	}
}

Test(cgroup_changes, a_limit_that_is_rubbish_or_nothing_is_none)
{
	static const char *const rubbish[] = {"",
					      "\n",
					      "maximum",
					      "-1\n",
					      "0\n",
					      "99999999999999999999999999\n",
					      "18446744073709551617\n",
					      "100M\n",
					      "1000 \n"};

	in_v2("/a");
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		mt_cgroup_of(0);
		v2_group(V2_MOUNT "/a", 500, 0, 0, 0);
		put_in(V2_MOUNT "/a", "memory.max", rubbish[i]);
		expect_machine();
	}
}

/* ---- events ---- */

Test(cgroup_changes, events_are_those_of_max_and_high)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events",
	       "low 9\nhigh 3\nmax 4\noom 8\noom_kill 7\noom_group_kill 5\n");
	cr_expect(look().events_known);
	cr_expect_eq(look().events_count, 7);
	put_in(V2_MOUNT "/a", "memory.events", "low 9\nhigh 3\nmax 6\noom 80\noom_kill 70\n");
	cr_expect_eq(look().events_count, 9);
}

Test(cgroup_changes, local_events_count_where_there_are_any)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/a/b", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 50\n"); /* the neighbours' among them */
	put_in(V2_MOUNT "/a", "memory.events.local", "high 1\nmax 2\n");
	put_in(V2_MOUNT "/a/b", "memory.events.local", "high 4\nmax 8\n");
	cr_expect_eq(look().events_count, 15);
}

Test(cgroup_changes, a_group_without_a_limit_has_no_events)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/a/b", 500, 0, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 5\n");
	put_in(V2_MOUNT "/a/b", "memory.events", "high 0\nmax 70\n");
	cr_expect_eq(look().events_count, 5);
}

Test(cgroup_changes, version_1_counts_failures)
{
	in_v1("/job/1");
	v1_group(V1_MOUNT "/job", 500, 2000, 0);
	v1_group(V1_MOUNT "/job/1", 500, 1000, 0);
	put_in(V1_MOUNT "/job", "memory.failcnt", "2\n");
	put_in(V1_MOUNT "/job/1", "memory.failcnt", "40\n");
	cr_expect_eq(look().events_count, 42);
	put_in(V1_MOUNT "/job/1", "memory.failcnt", "0\n"); /* by an administrator */
	cr_expect_eq(look().events_count, 2);
}

Test(cgroup_changes, events_of_before_a_move_are_no_events_now)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/b", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 5\n");
	put_in(V2_MOUNT "/b", "memory.events", "high 0\nmax 1000\n");
	cr_expect(look().events_known);
	in_v2("/b");
	now_ns += 60 * S;
	cr_expect_not(look().events_known);
	cr_expect(look().events_known);
	put_in(V2_MOUNT "/b", "memory.events", "high 0\nmax 1001\n");
	now_ns += 60 * S;
	cr_expect(look().events_known, "found again, and the same");
	cr_expect_eq(look().events_count, 1001);
}

Test(cgroup_changes, events_that_cannot_be_read_for_a_moment_are_unknown)
{
	in_v2("/a");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 5\n");
	cr_expect_eq(look().events_count, 5);
	put_in(V2_MOUNT "/a", "memory.events", "?\n");
	cr_expect_not(look().events_known);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 6\n");
	cr_expect(look().events_known);
	cr_expect_eq(look().events_count, 6);
}

Test(cgroup_changes, events_are_known_where_all_groups_tell_theirs)
{
	in_v2("/a/b");
	v2_group(V2_MOUNT "/a", 500, 1000, 0, 0);
	v2_group(V2_MOUNT "/a/b", 500, 1000, 0, 0);
	put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 5\n");
	cr_expect_not(look().events_known);
	put_in(V2_MOUNT "/a/b", "memory.events", "high 0\nmax 5\n");
	cr_expect(look().events_known);
}

/* ---- the kernel's own groups ---- */

static bool write_to(const char *directory, const char *file, uint64_t value)
{
	char path[MT_CGROUP_PATH_BYTES + 128];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	out = fopen(path, "w");
	return out && fprintf(out, "%" PRIu64 "\n", value) > 0 && fclose(out) == 0;
}

/* The directory in which a group can be made: the one of this process; in version 2, where a group
 * with processes has no children with limits, the nearest that gives memory to its children. */
static void cut_to_parent(struct mt_cgroup_path *place, bool is_v1)
{
	size_t length = is_v1 ? 0 : place->length;
	char given[256];

	while (length && !(mt_cgroup_path_read(place, length, "cgroup.subtree_control", given,
					       sizeof(given)) &&
			   strstr(given, "memory")))
		length = mt_cgroup_path_parent(place, length);
	if (length)
		place->directory[length] = 0;
}

/* Makes a group, moves in, and out again. */
Test(cgroup_changes, a_real_group_is_found_once_this_process_is_in_it)
{
	static struct mt_cgroup_path place;
	struct mt_cgroup_sample out;
	char own[sizeof(place.directory)];
	char group[MT_CGROUP_PATH_BYTES + 64];
	bool is_v1 = mt_cgroup_path_find("", 0, "memory", &place);

	if (!is_v1 && !mt_cgroup_path_find("", 0, NULL, &place))
		place.directory[0] = 0;
	strcpy(own, place.directory);
	cut_to_parent(&place, is_v1);
	snprintf(group, sizeof(group), "%s/mtshim-test-%d", place.directory, (int)getpid());
	if (mkdir(group, 0755) != 0)
		cr_skip_test("no cgroup can be made here");
	if (!write_to(group, is_v1 ? "memory.limit_in_bytes" : "memory.max", 512 * MB) ||
	    !write_to(group, "cgroup.procs", (uint64_t)getpid())) {
		rmdir(group);
		cr_skip_test("a cgroup can be made here, but has no memory controller, or we may "
			     "not move");
	}
	mt_cgroup_read("", &config, now_ns, 0, &out);
	cr_expect_eq(out.limit_bytes, 512 * MB);
	cr_expect(out.is_cgroup && out.exact && out.events_known);
	cr_expect_gt(out.used_bytes, 0);
	cr_expect_lt(out.used_bytes, 512 * MB);
	cr_expect_eq(strncmp(out.source, group, strlen(group)), 0, "%s", out.source);
	cr_assert(write_to(own, "cgroup.procs", (uint64_t)getpid()));
	cr_assert_eq(rmdir(group), 0);
	now_ns += S;
	mt_cgroup_read("", &config, now_ns, 0, &out);
	cr_expect_neq(strncmp(out.source, group, strlen(group)), 0, "it is gone: %s", out.source);
	cr_expect_gt(out.limit_bytes, 0);
}

/* ---- rubbish ---- */

static const char *const files[] = {
	"/proc/self/cgroup",
	"/proc/self/mountinfo",
	"/proc/meminfo",
	V2_MOUNT "/a/memory.current",
	V2_MOUNT "/a/memory.max",
	V2_MOUNT "/a/memory.high",
	V2_MOUNT "/a/memory.stat",
	V2_MOUNT "/a/memory.events",
	V2_MOUNT "/a/memory.events.local",
};
#define FILES (sizeof(files) / sizeof(files[0]))

static uint32_t dice(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

/* Bytes of any kind, or of the kind that the files are made of. */
static size_t roll(unsigned char *out, size_t most)
{
	static const char likely[] = "0123456789 \n/:-,.maxcgroup2kBinactive_file";
	size_t length = dice() % most;
	bool plain = dice() % 2;

	for (size_t i = 0; i < length; i++)
		out[i] = plain ? (unsigned char)likely[dice() % (sizeof(likely) - 1)]
			       : (unsigned char)dice();
	return length;
}

Test(cgroup_changes, random_bytes_in_any_file_never_lift_a_limit)
{
	unsigned char bytes[600];

	for (int turn = 0; turn < 3000; turn++) {
		struct mt_cgroup_sample out;
		size_t bad;

		if (turn % 50 == 0) {
			in_v2("/a");
			v2_group(V2_MOUNT "/a", 500, 1000, 900, 100);
			put_in(V2_MOUNT "/a", "memory.events", "high 0\nmax 5\n");
			put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 4194304 kB\n");
		}
		/* Neither the one file that holds the limit nor, at first, where it is: */
		bad = turn % 50 < 25 ? 3 + dice() % (FILES - 3) : dice() % FILES;
		if (bad == 4)
			bad = 5;
		put_bytes(files[bad], bytes, roll(bytes, turn % 7 ? 40 : sizeof(bytes)));
		now_ns += (uint64_t)(dice() % 4) * 20 * S;
		out = look_at(dice() % 120);
		cr_assert_leq(strlen(out.source), MT_CGROUP_PATH_BYTES);
		if (out.is_cgroup)
			cr_assert_leq(out.limit_bytes, 1000 * MB);
	}
}
