/* test_psi.c -- core/cgroup: the kernel's figures, and the file that a service manager names. */
#include "sense_files.h"

#include <sys/stat.h>

#include "core/config.h"
#include "core/cgroup.h"
#include "core/core_internal.h"

#define TEXT(some, full)                                                                           \
	"some avg10=0.12 avg60=3.00 avg300=0.00 total=" #some                                      \
	"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=" #full "\n"

static mt_text watched;

static void begin_psi(void)
{
	begin();
	memset(watched, 0, sizeof(watched));
	mt_cgroup_psi_fork_child();
}

TestSuite(psi, .init = begin_psi, .fini = end);

static struct mt_psi_sample look_of(const char *group)
{
	struct mt_psi_sample out;

	memset(&out, 0x5a, sizeof(out));
	mt_cgroup_psi_read(root, group, watched, &out);
	return out;
}

static struct mt_psi_sample look(void)
{
	return look_of("");
}

/* ---- figures ---- */

Test(psi, the_total_is_that_of_its_line)
{
	static const struct {
		const char *text, *line;
		bool valid;
		uint64_t total;
	} rows[] = {
		{TEXT(123, 45), "some", true, 123},
		{TEXT(123, 45), "full", true, 45},
		{"full avg10=0.00 total=45\nsome avg10=0.00 total=9", "some", true, 9},
		{"some total=1", "some", true, 1},
		{"some total=18446744073709551615\n", "some", true, UINT64_MAX},
		{"some avg10=0.00 total=5 more=1\n", "some", true, 5},
		{"some avg10=0.00\nfull avg10=0.00 total=45\n", "some", false, 0},
		{"some avg10=0.00 total=\n", "some", false, 0},
		{"some avg10=0.00 total=-1\n", "some", false, 0},
		{"some avg10=0.00 total=1x\n", "some", false, 0},
		{"some avg10=0.00 subtotal=1\n", "some", false, 0},
		{"something total=4\n", "some", false, 0},
		{" some total=4\n", "some", false, 0},
		{"some", "some", false, 0},
		{"\n\n", "some", false, 0},
		{"", "some", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t total = 42;

		cr_expect_eq(mt_cgroup_psi_parse(rows[i].text, rows[i].line, &total), rows[i].valid,
			     "'%s'", rows[i].text);
		cr_expect_eq(total, rows[i].valid ? rows[i].total : 42, "'%s'", rows[i].text);
	}
}

Test(psi, the_figures_of_the_group_are_taken_before_the_machines)
{
	struct mt_psi_sample out;

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/group/memory.pressure", TEXT(7, 3));
	out = look_of(in_root("/group"));
	cr_expect(out.known);
	cr_expect_eq(out.some_us, 7);
	cr_expect_eq(look().some_us, 1000);
}

Test(psi, what_the_whole_machine_waits_for_is_not_of_this_process)
{
	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/root/memory.pressure", TEXT(1000, 500));
	put("/group/memory.pressure", TEXT(7, 3));
	put("/group/cgroup.events", "populated 1\n");
	put("/v2/memory.pressure", TEXT(7, 3));
	put("/v2/memory.current", "4096\n");
	cr_expect_not(look().is_own);
	cr_expect_not(look_of(in_root("/root")).is_own, "the root of all groups");
	cr_expect(look_of(in_root("/group")).is_own);
	cr_expect(look_of(in_root("/v2")).is_own);
	snprintf(watched, sizeof(watched), "/root/memory.pressure");
	cr_expect(look().is_own, "it was named");
}

Test(psi, where_the_group_tells_nothing_the_machine_does)
{
	put("/proc/pressure/memory", TEXT(1000, 500));
	cr_expect_eq(look_of(in_root("/none")).some_us, 1000);
	put("/empty/memory.pressure", "%s", "");
	cr_expect_eq(look_of(in_root("/empty")).some_us, 1000);
	put("/rubbish/memory.pressure", "what total\n");
	cr_expect_eq(look_of(in_root("/rubbish")).some_us, 1000);
	/* As with PSI that is switched off in the kernel: it opens, and reading is an error. */
	put("/off/memory.pressure/x", "%s", "");
	cr_expect_eq(look_of(in_root("/off")).some_us, 1000);
}

/* Taken for one that has risen, the machine's total would be hours of waiting all at once. */
Test(psi, totals_of_another_file_are_unknown_for_one_look)
{
	put("/proc/pressure/memory", TEXT(9000000000, 500));
	put("/group/memory.pressure", TEXT(7, 3));
	put("/other/memory.pressure", TEXT(8000000000, 3));
	cr_expect(look_of(in_root("/group")).known);
	cr_expect_not(look_of(in_root("/other")).known, "moved");
	cr_expect(look_of(in_root("/other")).known);
	drop("/other");
	cr_expect_not(look_of(in_root("/other")).known, "the machine's");
	cr_expect(look_of(in_root("/other")).known);
}

Test(psi, a_kernel_without_it_is_nothing_known)
{
	struct mt_psi_sample out = look();

	cr_expect(!out.known && out.some_us == 0);
	put("/proc/pressure/memory/x", "%s", "");
	cr_expect_not(look().known);
}

/* ---- MEMORY_PRESSURE_WATCH ---- */

Test(psi, totals_are_those_of_the_watched_file)
{
	struct mt_psi_sample out;

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/group/memory.pressure", TEXT(70, 30));
	put("/watched", TEXT(7, 3));
	strcpy(watched, "/watched");
	out = look_of(in_root("/group"));
	cr_expect(out.known);
	cr_expect_eq(out.some_us, 7);
	put("/watched", TEXT(8, 3));
	cr_expect_eq(look_of(in_root("/group")).some_us, 8);
	put("/watched", "gone bad\n");
	out = look_of(in_root("/group"));
	cr_expect(!out.known);
	out = look_of(in_root("/group"));
	cr_expect(out.known);
	cr_expect_eq(out.some_us, 70);
}

/* To open a FIFO without a writer would hold the worker, to open a device may start it. */
Test(psi, what_is_no_full_path_of_a_file_with_stall_is_not_watched)
{
	static const char *const paths[] = {"watched", "/none", "/fifo", "/dev/null", "/rubbish"};

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/watched", TEXT(7, 3));
	put("/rubbish", "what total\n");
	cr_assert_eq(mkfifo(in_root("/fifo"), 0600), 0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		strcpy(watched, paths[i]);
		cr_expect_eq(look().some_us, 1000, "%s", paths[i]);
	}
}

Test(psi, random_bytes_for_figures_are_no_more_than_unknown)
{
	unsigned seed = 1;

	put("/watched", TEXT(7, 3));
	strcpy(watched, "/watched");
	for (int turn = 0; turn < 3000; turn++) {
		char bytes[700];
		size_t length = (size_t)(rand_r(&seed) % (int)sizeof(bytes));
		struct mt_psi_sample out;

		for (size_t i = 0; i < length; i++)
			bytes[i] = turn % 2 ? (char)rand_r(&seed)
					    : "some full total=0 1\n"[rand_r(&seed) % 20];
		put_bytes(turn % 3 ? "/watched" : "/proc/pressure/memory", bytes, length);
		out = look();
		cr_assert(out.known || !out.some_us);
	}
}
