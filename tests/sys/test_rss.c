/* test_rss.c -- sys/rss: what the kernel says of us, against memory that we know of. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sys/os.h"
#include "sys/rss.h"

#define AREA_BYTES (48 * MT_MIB)
#define SLOP_BYTES (4 * MT_MIB) /* statm's counters lag by some pages a thread */

static unsigned char *map_area(int kind)
{
	unsigned char *area =
		mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(area, MAP_FAILED);
	(void)madvise(area, AREA_BYTES, MADV_NOHUGEPAGE);
	return area;
}

static struct mt_rss_quick quick(void)
{
	struct mt_rss_quick out;

	cr_assert(mt_rss_read_quick(&out));
	return out;
}

static struct mt_rss_full full(void)
{
	struct mt_rss_full out;

	cr_assert(mt_rss_read_full(&out));
	return out;
}

static void expect_grown(uint64_t before, uint64_t after, uint64_t by, const char *what)
{
	cr_expect_geq(after + SLOP_BYTES, before + by, "%s: %llu, then %llu", what,
		      (unsigned long long)before, (unsigned long long)after);
	cr_expect_leq(after, before + by + SLOP_BYTES, "%s: %llu, then %llu", what,
		      (unsigned long long)before, (unsigned long long)after);
}

#ifndef __SANITIZE_THREAD__ /* whose shadow is anonymous memory, too: four times what is touched */
Test(rss, sees_anonymous_memory_come_and_go)
{
	struct mt_rss_quick before = quick();
	struct mt_rss_full all_before = full();
	unsigned char *area = map_area(MAP_PRIVATE);

	expect_grown(before.rss_bytes, quick().rss_bytes, 0, "mapped is not resident");
	memset(area, 1, AREA_BYTES);
	expect_grown(before.rss_bytes, quick().rss_bytes, AREA_BYTES, "rss");
	expect_grown(before.anon_bytes, quick().anon_bytes, AREA_BYTES, "anon");
	expect_grown(all_before.rss_bytes, full().rss_bytes, AREA_BYTES, "VmRSS");
	expect_grown(all_before.anon_bytes, full().anon_bytes, AREA_BYTES, "RssAnon");
	expect_grown(all_before.shmem_bytes, full().shmem_bytes, 0, "RssShmem");
	cr_assert_eq(madvise(area, AREA_BYTES, MADV_DONTNEED), 0);
	expect_grown(before.rss_bytes, quick().rss_bytes, 0, "rss afterwards");
	expect_grown(before.anon_bytes, quick().anon_bytes, 0, "anon afterwards");
	cr_expect_geq(full().peak_bytes + SLOP_BYTES, all_before.rss_bytes + AREA_BYTES,
		      "the peak stays");
}

Test(rss, tells_shared_memory_from_anonymous)
{
	struct mt_rss_quick before = quick();
	struct mt_rss_full all_before = full();
	unsigned char *area = map_area(MAP_SHARED);

	memset(area, 1, AREA_BYTES);
	expect_grown(before.rss_bytes, quick().rss_bytes, AREA_BYTES, "rss");
	expect_grown(before.anon_bytes, quick().anon_bytes, 0, "anon");
	expect_grown(all_before.shmem_bytes, full().shmem_bytes, AREA_BYTES, "RssShmem");
	expect_grown(all_before.anon_bytes, full().anon_bytes, 0, "RssAnon");
}
#endif

Test(rss, both_looks_agree)
{
	struct mt_rss_quick small = quick();
	struct mt_rss_full all = full();

	expect_grown(small.rss_bytes, all.rss_bytes, 0, "rss");
	expect_grown(small.anon_bytes, all.anon_bytes, 0, "anon");
	cr_expect_eq(all.rss_bytes, all.anon_bytes + all.file_bytes + all.shmem_bytes);
	cr_expect_geq(all.peak_bytes + SLOP_BYTES, all.rss_bytes);
}

/* VmRSS stands behind the list of groups: of a user in hundreds of them all figures were 0. */
static bool read_with_groups(size_t groups_bytes, const char *lines, struct mt_rss_full *out)
{
	char path[] = "/tmp/mtshim-rss-XXXXXX";
	int fd = mkstemp(path);
	static char groups[16384];
	bool read;

	cr_assert_geq(fd, 0);
	cr_assert_lt(groups_bytes, sizeof(groups));
	memset(groups, '7', groups_bytes);
	cr_assert_gt(dprintf(fd, "Name:\tx\nGroups:\t%.*s\n%s", (int)groups_bytes, groups, lines),
		     0);
	close(fd);
	read = mt_rss_read_status(path, out);
	unlink(path);
	return read;
}

Test(rss, a_user_may_be_in_any_number_of_groups)
{
	static const char lines[] =
		"VmPeak:\t9 kB\nVmHWM:\t8 kB\nVmRSS:\t7 kB\nRssAnon:\t4 kB\nRssFile:\t2 kB\n"
		"RssShmem:\t1 kB\nVmSwap:\t5 kB\nThreads:\t1\n";

	for (size_t groups = 1; groups<14000; groups += groups> 4050 && groups < 4110 ? 1 : 27) {
		struct mt_rss_full out = {0};

		cr_assert(read_with_groups(groups, lines, &out), "%zu", groups);
		cr_assert(out.peak_bytes == 8192 && out.rss_bytes == 7168 &&
				  out.anon_bytes == 4096 && out.file_bytes == 2048 &&
				  out.shmem_bytes == 1024 && out.swap_bytes == 5120,
			  "%zu", groups);
	}
}

Test(rss, figures_that_are_not_there_are_no_zeroes)
{
	struct mt_rss_full out = {.rss_bytes = 42};

	cr_expect_not(read_with_groups(9000, "", &out));
	cr_expect_not(read_with_groups(10, "VmPeak:\t9 kB\nVmSwap:\t5 kB\n", &out));
	cr_expect_not(mt_rss_read_status("/nonexistent", &out));
	cr_expect_eq(out.rss_bytes, 42, "untouched");
}

Test(rss, counts_faults_and_time)
{
	struct mt_rss_usage before;
	struct mt_rss_usage after;
	unsigned char *area = map_area(MAP_PRIVATE);

	cr_assert(mt_rss_read_usage(&before));
	memset(area, 1, AREA_BYTES);
	cr_assert(mt_rss_read_usage(&after));
	cr_expect_geq(after.minor_faults_count - before.minor_faults_count,
		      AREA_BYTES / mt_os_page_bytes());
	cr_expect_gt(after.cpu_ns, before.cpu_ns);
	cr_expect_geq(after.system_ns, before.system_ns);
	cr_expect_leq(after.system_ns, after.cpu_ns);
}

Test(rss, finds_numbers_in_the_kernels_tables)
{
	const char *text = "Name:\tVmRSS: 7\nVmHWM:\t    1234 kB\nVmRSS:\t99 kB\nEmpty:\nLast: "
			   "18446744073709551615";

	cr_expect_eq(mt_os_parse_keyed_number(text, "VmHWM:"), 1234);
	cr_expect_eq(mt_os_parse_keyed_number(text, "VmRSS:"), 99,
		     "a key stands at the start of its line");
	cr_expect_eq(mt_os_parse_keyed_number(text, "Empty:"), 0);
	cr_expect_eq(mt_os_parse_keyed_number(text, "Last:"), UINT64_MAX);
	cr_expect_eq(mt_os_parse_keyed_number(text, "None:"), 0);
	cr_expect_eq(mt_os_parse_keyed_number("", "None:"), 0);
	cr_expect_eq(mt_os_parse_number(" \t42 kB"), 42);
	cr_expect_eq(mt_os_parse_number("kB"), 0);
	cr_expect_eq(mt_os_parse_number("-5"), 0);
}

Test(rss, reads_files_within_the_room_there_is)
{
	char path[] = "/tmp/mtshim-rss-XXXXXX";
	char out[8];
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "0123456789", 10), 10);
	memset(out, 'x', sizeof(out));
	cr_expect_eq(mt_os_read_file(path, out, 5), 4);
	cr_expect_str_eq(out, "0123");
	cr_expect_eq(out[5], 'x');
	cr_expect_eq(mt_os_read_file(path, out, sizeof(out)), 7);
	cr_expect_str_eq(out, "0123456");
	close(fd);
	unlink(path);
	cr_expect_lt(mt_os_read_file(path, out, sizeof(out)), 0);
	cr_expect_str_eq(out, "");
}
