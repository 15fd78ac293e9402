/* test_rss_limit.c -- pressure/pressure: who holds what, and what to do about the largest. */
#include <criterion/criterion.h>
#include <string.h>

#include "sys/os.h"
#include "pressure/pressure_internal.h"

#define MB(n) ((uint64_t)(n)*MT_MIB)

static struct mt_stats_limit_report limit_report_;
static struct mt_stats_snapshot figures;

static void start(void)
{
	limit_report_ = (struct mt_stats_limit_report){.rss_bytes = MB(1000),
						       .anon_bytes = MB(900),
						       .file_bytes = MB(90),
						       .shmem_bytes = MB(10)};
	memset(&figures, 0, sizeof(figures));
}

TestSuite(limit_report, .init = start);

static void expect_advice(const char *part)
{
	mt_pressure_rss_limit_attribute(&limit_report_, &figures, figures.heap_resident_bytes != 0);
	cr_expect_not_null(strstr(limit_report_.advice, part), "%s", limit_report_.advice);
	cr_expect_lt(strlen(limit_report_.advice), sizeof(limit_report_.advice) - 1, "it is cut");
}

Test(limit_report, shares_the_heap_out)
{
	figures.heap_live_bytes = MB(500);
	figures.heap_dirty_bytes = MB(40);
	figures.heap_metadata_bytes = MB(10);
	figures.heap_resident_bytes = MB(700);
	figures.gpu_pinned_bytes = MB(7);

	mt_pressure_rss_limit_attribute(&limit_report_, &figures, true);

	cr_expect_eq(limit_report_.heap_live_bytes, MB(500));
	cr_expect_eq(limit_report_.heap_dirty_bytes, MB(40));
	cr_expect_eq(limit_report_.heap_metadata_bytes, MB(10));
	cr_expect_eq(limit_report_.heap_pinned_bytes, MB(150));
	cr_expect_eq(limit_report_.other_anon_bytes, MB(200));
	cr_expect_eq(limit_report_.gpu_pinned_bytes, MB(7));
}

Test(limit_report, never_counts_below_zero)
{
	figures.heap_live_bytes = MB(5000); /* never touched */
	figures.heap_resident_bytes = MB(700);

	mt_pressure_rss_limit_attribute(&limit_report_, &figures, true);

	cr_expect_eq(limit_report_.heap_pinned_bytes, 0);
	cr_expect_eq(limit_report_.other_anon_bytes, 0);
}

Test(limit_report, takes_what_no_allocator_tells_for_other_memory)
{
	figures.heap_live_bytes = MB(300);

	mt_pressure_rss_limit_attribute(&limit_report_, &figures, false);

	cr_expect_eq(limit_report_.heap_pinned_bytes, 0);
	cr_expect_eq(limit_report_.other_anon_bytes, MB(600));
}

Test(limit_report, swapped_memory_is_somebodys_too)
{
	limit_report_.swap_bytes = MB(100);
	figures.heap_live_bytes = MB(300);

	mt_pressure_rss_limit_attribute(&limit_report_, &figures, false);

	cr_expect_eq(limit_report_.other_anon_bytes, MB(700));
}

Test(limit_report, advises_about_the_largest)
{
	figures.heap_resident_bytes = MB(850);
	figures.heap_live_bytes = MB(800);
	expect_advice("the program holds it");
	figures.heap_live_bytes = MB(100);
	expect_advice("share pages with live ones");
	figures.heap_dirty_bytes = MB(700);
	expect_advice("not returned");
	memset(&figures, 0, sizeof(figures));
	expect_advice("MT_ALLOCATOR=jemalloc tells them apart");
	figures.heap_resident_bytes = MB(100);
	expect_advice("not of the heap");
	limit_report_.anon_bytes = MB(50);
	limit_report_.file_bytes = MB(800);
	expect_advice("mapped files");
	limit_report_.shmem_bytes = MB(900);
	expect_advice("shared memory");
}

Test(limit_report, names_page_locked_memory_wherever_it_is_counted)
{
	figures.heap_live_bytes = MB(400);
	figures.gpu_pinned_bytes = MB(400);
	expect_advice("page-locked for CUDA");
}
