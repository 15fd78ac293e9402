/* tests/ctl/test_smaps.c -- what the kernel says of mappings, in the text of whatever kernel, and
 * copies after a fork. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "ctl/process/smaps.h"

#define KB 1024u

static struct mt_smaps smaps;

static void forget(void)
{
	mt_smaps_free(&smaps);
}

TestSuite(smaps, .fini = forget);

static const char text[] =
	"55918fa83000-55918fa86000 r-xp 00001000 fe:00 248030                     /usr/bin/a "
	"program\n"
	"Size:                 12 kB\nRss:                  12 kB\nPss:                   3 "
	"kB\nShared_Clean:         12 kB\n"
	"VmFlags: rd mr mw me \n"
	"7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
	"Rss:                4096 kB\nPss:                2048 kB\nShared_Dirty:       4000 "
	"kB\nPrivate_Dirty:        96 kB\n"
	"Anonymous:          4096 kB\nAnonHugePages:      2048 kB\nSwap:                  8 "
	"kB\nSwapPss:               4 kB\n"
	"7f0001000000-7f0001100000 rw-s 00000000 00:01 42                         /dev/shm/torch_1 "
	"(deleted)\n"
	"Rss:                 100 kB\nPss:                  50 kB\n"
	"7ffc84334000-7ffc84336000 r-xp 00000000 00:00 0                          [vdso]\n"
	"Rss:                   8 kB\nPss:                   0 kB\n";

static void parse(const char *from, struct mt_smaps *out)
{
	char *copy = strdup(from);

	mt_smaps_parse(copy, out);
	free(copy);
}

Test(smaps, reads_every_mapping_with_its_figures)
{
	const struct mt_smaps_mapping *at;

	parse(text, &smaps);
	cr_assert_eq(smaps.count, 4);
	at = &smaps.list[0];
	cr_expect_str_eq(at->name, "/usr/bin/a program");
	cr_expect_eq(at->kind, MT_SMAPS_FILE);
	cr_expect_eq(at->sizes.pss_bytes, 3 * KB);
	cr_expect_not(at->is_writable);
	at = &smaps.list[1];
	cr_expect_str_eq(at->name, "");
	cr_expect_eq(at->kind, MT_SMAPS_ANON);
	cr_expect_eq(at->end - at->start, 4096 * KB);
	cr_expect_eq(at->sizes.shared_dirty_bytes, 4000 * KB);
	cr_expect_eq(at->sizes.huge_bytes, 2048 * KB);
	cr_expect_eq(at->sizes.swap_pss_bytes, 4 * KB);
	cr_expect(at->is_writable && !at->is_shared);
	cr_expect_eq(smaps.list[2].kind, MT_SMAPS_SHM);
	cr_expect(smaps.list[2].is_shared);
	cr_expect_eq(smaps.list[3].kind, MT_SMAPS_SPECIAL);
	cr_expect_eq(smaps.vdso, 0x7ffc84334000);
	cr_expect_eq(smaps.total.rss_bytes, (12 + 4096 + 100 + 8) * KB);
	cr_expect_eq(smaps.total.pss_file_bytes, 3 * KB);
	cr_expect_eq(smaps.total.pss_anon_bytes, 2048 * KB);
	cr_expect_eq(smaps.total.pss_shmem_bytes, 50 * KB);
}

Test(smaps, knows_memory_with_a_name_from_a_file)
{
	const struct {
		const char *name;
		bool is_shared;
		enum mt_smaps_kind kind;
	} cases[] = {
		{"", false, MT_SMAPS_ANON},
		{"[heap]", false, MT_SMAPS_ANON},
		{"[stack]", false, MT_SMAPS_ANON},
		{"[anon:glibc: malloc]", false, MT_SMAPS_ANON},
		{"/dev/zero", false, MT_SMAPS_ANON},
		{"/dev/zero (deleted)", true, MT_SMAPS_SHM},
		{"/memfd:x (deleted)", true, MT_SMAPS_SHM},
		{"/SYSV00000000 (deleted)", true, MT_SMAPS_SHM},
		{"[anon_shmem:x]", true, MT_SMAPS_SHM},
		{"/dev/shm/x", true, MT_SMAPS_SHM},
		{"/home/dev/shm/x", true, MT_SMAPS_FILE},
		{"/tmp/data", true, MT_SMAPS_FILE},
		{"socket:[123]", true, MT_SMAPS_FILE},
		{"[vvar_vclock]", false, MT_SMAPS_SPECIAL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(mt_smaps_kind_of(cases[i].name, cases[i].is_shared), cases[i].kind,
			     "%s", cases[i].name);
}

Test(smaps, takes_nothing_from_lines_that_make_no_sense)
{
	static const char *const bad[] = {
		"",
		"\n\n\n",
		"Rss: 12 kB\n",
		"Rss\nPss:\nSwap: kB\n",
		"0-0 rw-p 0 0:0 0\nRss: 5 kB\n",
		"2000-1000 rw-p 00000000 00:00 0 \nRss: 5 kB\n",
		"1000-2000 r\nRss: 5 kB\n",
		"1000-2000 rw-p 00000000\nRss: 5 kB\n",
		"zzzz\nRss: 5 kB\n",
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 99999999999999999999 kB\nPss: "
		"18446744073709551615 kB\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		parse(bad[i], &smaps);
		cr_expect_eq(smaps.total.rss_bytes, 0, "case %zu", i);
		cr_expect_eq(smaps.total.pss_bytes, 0, "case %zu", i);
		mt_smaps_free(&smaps);
	}
}

Test(smaps, makes_hostile_names_fit_for_a_terminal_and_cuts_them)
{
	char line[600] = "1000-2000 rw-s 00000000 00:01 42 /dev/shm/\033[31m";

	memset(line + strlen(line), 'x', 400);
	mt_smaps_parse(line, &smaps);
	cr_assert_eq(smaps.count, 1);
	cr_expect_null(strchr(smaps.list[0].name, '\033'));
	cr_expect_eq(strlen(smaps.list[0].name), sizeof(smaps.list[0].name) - 1);
	cr_expect_eq(smaps.list[0].kind, MT_SMAPS_SHM);
}

Test(smaps, reads_a_rollup_of_an_old_and_of_a_new_kernel)
{
	struct mt_smaps_sizes figures = {.rss_bytes = 7};

	cr_expect(mt_smaps_parse_total("1000-2000 ---p 0 0:0 0 [rollup]\nRss: 20 kB\nPss: 10 kB\n",
				       &figures));
	cr_expect_eq(figures.pss_bytes, 10 * KB);
	cr_expect(mt_smaps_parse_total(
		"1000-2000 ---p 0 0:0 0 [rollup]\nRss: 20 kB\nPss: 10 kB\nPss_Dirty: 9 kB\n"
		"Pss_Anon: 0 kB\nPss_File: 4 kB\nPss_Shmem: 6 kB\n",
		&figures));
	cr_expect_eq(figures.pss_shmem_bytes, 6 * KB);
	figures.rss_bytes = 7;
	cr_expect_not(mt_smaps_parse_total("", &figures));
	cr_expect_eq(figures.rss_bytes, 7);
}

/* ---- copies ---- */

static struct mt_smaps_mapping anon(uint64_t start, uint64_t end, uint64_t shared, uint64_t private)
{
	return (struct mt_smaps_mapping){.start = start,
					 .end = end,
					 .kind = MT_SMAPS_ANON,
					 .sizes = {.shared_dirty_bytes = shared,
						   .private_dirty_bytes = private,
						   .anonymous_bytes = shared + private}};
}

static struct mt_smaps_fork compare(struct mt_smaps_mapping *child, size_t child_count,
				    struct mt_smaps_mapping *parent, size_t parent_count)
{
	const struct mt_smaps one = {.list = child, .count = child_count, .vdso = 77};
	const struct mt_smaps other = {.list = parent, .count = parent_count, .vdso = 77};
	struct mt_smaps_fork fork;

	mt_smaps_compare(&one, &other, &fork);
	return fork;
}

Test(smaps, tells_what_a_worker_has_copied)
{
	/* the worker wrote to 40 of its 100 */
	struct mt_smaps_mapping parent[] = {anon(1000, 2000, 60, 40)};
	struct mt_smaps_mapping child[] = {anon(1000, 2000, 60, 40)};
	struct mt_smaps_fork fork = compare(child, 1, parent, 1);

	cr_expect(fork.is_fork);
	cr_expect_eq(fork.shared_bytes, 60);
	cr_expect_eq(fork.copied_bytes, 40);
}

Test(smaps, does_not_take_new_memory_for_copies)
{
	struct mt_smaps_mapping parent[] = {anon(1000, 2000, 90, 10)};
	struct mt_smaps_mapping child[] = {anon(1000, 2000, 90, 500), anon(3000, 4000, 0, 700)};
	struct mt_smaps_fork fork = compare(child, 2, parent, 1);

	cr_expect_eq(fork.copied_bytes, 10, "the parent has no more than that");
	cr_expect_eq(fork.private_bytes, 1200);
}

Test(smaps, finds_the_same_memory_in_mappings_that_were_cut_and_joined)
{
	struct mt_smaps_mapping parent[] = {anon(1000, 2000, 50, 10), anon(2000, 3000, 20, 30),
					    anon(5000, 6000, 0, 999)};
	struct mt_smaps_mapping child[] = {anon(1000, 1500, 30, 5), anon(1500, 3000, 40, 35)};
	struct mt_smaps_fork fork = compare(child, 2, parent, 3);

	cr_expect_eq(fork.shared_bytes, 70);
	cr_expect_eq(fork.copied_bytes, 40);
}

Test(smaps, looks_at_no_files_and_no_shared_memory)
{
	struct mt_smaps_mapping parent[] = {anon(1000, 2000, 0, 100), anon(3000, 4000, 0, 100)};
	struct mt_smaps_mapping child[] = {anon(1000, 2000, 0, 100), anon(3000, 4000, 0, 100)};

	child[0].kind = MT_SMAPS_SHM;
	child[1].kind = MT_SMAPS_FILE;
	cr_expect_eq(compare(child, 2, parent, 2).private_bytes, 0);
}

Test(smaps, after_an_exec_there_is_nothing_to_share)
{
	struct mt_smaps_mapping mapping = anon(1000, 2000, 10, 100);
	const struct mt_smaps parent = {.list = &mapping, .count = 1, .vdso = 77};
	struct mt_smaps child = parent;
	struct mt_smaps_fork fork;

	for (uint64_t vdso = 0; vdso <= 78; vdso += 78) {
		child.vdso = vdso;
		mt_smaps_compare(&child, &parent, &fork);
		cr_expect_not(fork.is_fork);
		cr_expect_eq(fork.private_bytes, 0);
	}
}
