/* tests/ctl/test_look.c -- the parts of `mtctl look` that read no process. */
#include <criterion/criterion.h>
#include <string.h>

#include "ctl/process/look.h"
#include "ctl/process/look_internal.h"
#include "ctl/process/start_command.h"

#define KB 1024ull
#define MB (KB * KB)

static struct mt_look look;
static struct mt_smaps_mapping list[16];
static struct mt_smaps smaps = {.list = list};

static void map(uint64_t start, uint64_t bytes, bool is_writable, uint64_t rss, const char *name,
		enum mt_smaps_kind kind)
{
	struct mt_smaps_mapping *to = &list[smaps.count++];

	*to = (struct mt_smaps_mapping){
		.start = start, .end = start + bytes, .kind = kind, .is_writable = is_writable};
	to->sizes.rss_bytes = rss;
	strcpy(to->name, name);
	smaps.total.rss_bytes += rss;
}

static void begin(void)
{
	memset(&look, 0, sizeof(look));
	smaps = (struct mt_smaps){.list = list};
}

TestSuite(look, .init = begin);

Test(look, tells_the_heaps_of_arenas_from_other_mappings)
{
	const uint64_t aligned = 0x7f0000000000;

	map(0xf0000000, 256 * MB, true, 80 * MB, "", MT_SMAPS_ANON); /* Java's heap */
	map(0x555500000000, 4 * MB, true, 3 * MB, "[heap]", MT_SMAPS_ANON);
	/* one heap, with its rest; two full ones side by side; a block that is only aligned */
	map(aligned, 2 * MB, true, 1 * MB, "", MT_SMAPS_ANON);
	map(aligned + 2 * MB, 62 * MB, false, 0, "", MT_SMAPS_ANON);
	map(aligned + 128 * MB, 128 * MB, true, 100 * MB, "", MT_SMAPS_ANON);
	map(aligned + 320 * MB, 10 * MB, true, 10 * MB, "", MT_SMAPS_ANON);
	mt_look_sort(&smaps, &look);

	cr_expect_eq(look.arena_heaps_count, 3);
	cr_expect_eq(look.arenas_bytes, 101 * MB);
	cr_expect_eq(look.brk_bytes, 3 * MB);
	cr_expect_eq(look.mapped_bytes, 90 * MB);
}

Test(look, counts_what_of_libcs_heaps_is_neither_resident_nor_swapped_out)
{
	const uint64_t aligned = 0x7f0000000000;

	map(0x555500000000, 30 * MB, true, 12 * MB, "[heap]", MT_SMAPS_ANON);
	list[0].sizes.swap_bytes = 5 * MB;
	map(aligned, 20 * MB, true, 13 * MB, "", MT_SMAPS_ANON);
	map(aligned + 20 * MB, 44 * MB, false, 0, "", MT_SMAPS_ANON);
	map(aligned + 320 * MB, 100 * MB, true, 10 * MB, "", MT_SMAPS_ANON);
	mt_look_sort(&smaps, &look);

	cr_expect_eq(look.heaps_absent_bytes, 20 * MB);
}

Test(look, knows_a_stack_by_its_guard)
{
	map(0x7f1000001000, 4 * KB, false, 0, "", MT_SMAPS_ANON);
	map(0x7f1000002000, 8 * MB, true, 64 * KB, "", MT_SMAPS_ANON);
	map(0x7f2000000000, 1 * MB, true, 1 * MB, "", MT_SMAPS_ANON);
	map(0x7ffc00000000, 128 * KB, true, 20 * KB, "[stack]", MT_SMAPS_ANON);
	mt_look_sort(&smaps, &look);

	cr_expect_eq(look.stacks_bytes, 84 * KB);
	cr_expect_eq(look.mapped_bytes, 1 * MB);
}

Test(look, has_parts_that_add_up_to_rss)
{
	uint64_t sum = 0;

	map(0x1000, 4 * MB, false, 1 * MB, "/usr/bin/program", MT_SMAPS_FILE);
	map(0x555500000000, 4 * MB, true, 3 * MB, "[heap]", MT_SMAPS_ANON);
	map(0x7f0000000000, 4 * MB, true, 2 * MB, "/dev/shm/x", MT_SMAPS_SHM);
	map(0x7ffc00000000, 8 * KB, false, 8 * KB, "[vdso]", MT_SMAPS_SPECIAL);
	mt_look_sort(&smaps, &look);
#define X(name, label) sum += look.name##_bytes;
	MT_LOOK_PARTS(X)
#undef X

	cr_expect_eq(sum, look.total.rss_bytes);
	cr_expect_eq(look.shared_bytes, 2 * MB);
}

Test(look, quotes_words_as_a_shell_takes_them)
{
	static const char words[] = "python3\0-c\0print('it''s')\0a b\0\0\033[31m";
	char out[128];

	cr_assert(mt_start_command_quote(words, sizeof(words), out, sizeof(out)));
	cr_expect_str_eq(out, "python3 -c 'print('\\''it'\\'''\\''s'\\'')' 'a b' '' $'\\x1b[31m'");
	cr_expect_not(mt_start_command_quote(words, sizeof(words), out, 16));
	cr_expect_str_eq(out, "python3 -c", "a word is not cut in two");
}

Test(look, reads_limits_and_leaves_out_those_that_are_none)
{
	struct mt_look_rlimits rlimits;

	mt_look_parse_rlimits("Limit                     Soft Limit           Hard Limit  Units\n"
			      "Max data size             unlimited            unlimited   bytes\n"
			      "Max stack size            8388608              unlimited   bytes\n"
			      "Max address space         1073741824           2147483648  bytes\n",
			      &rlimits);
	cr_expect_eq(rlimits.data_bytes, UINT64_MAX);
	cr_expect_eq(rlimits.stack_bytes, 8 * MB);
	cr_expect_eq(rlimits.address_space_bytes, 1024 * MB);
	mt_look_parse_rlimits(NULL, &rlimits);
	cr_expect_eq(rlimits.stack_bytes, UINT64_MAX);
}

Test(look, finds_the_service_and_the_container)
{
	mt_look_parse_cgroup("0::/system.slice/nginx.service\n", &look);
	cr_expect_str_eq(look.unit, "nginx.service");
	cr_expect_str_eq(look.container, "");
	begin();
	mt_look_parse_cgroup("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n",
			     &look);
	cr_expect_str_eq(look.unit, "", "a login is no service");
	mt_look_parse_cgroup("0::/kubepods/burstable/pod1/abc\n", &look);
	cr_expect_str_eq(look.container, "kubernetes");
}
