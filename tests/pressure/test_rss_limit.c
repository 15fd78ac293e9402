/* test_rss_limit.c -- pressure/rss_limit: who holds what, and what to do about the largest. */
#include <criterion/criterion.h>
#include <string.h>

#include "sys/os.h"
#include "pressure/rss_limit.h"

#define MB(n) ((uint64_t)(n)*MT_MIB)

static struct mt_stats_alarm alarm_;
static struct mt_stats_snapshot figures;

static void start(void)
{
	alarm_ = (struct mt_stats_alarm){.rss_bytes = MB(1000),
					 .anon_bytes = MB(900),
					 .file_bytes = MB(90),
					 .shmem_bytes = MB(10)};
	memset(&figures, 0, sizeof(figures));
}

TestSuite(alarm, .init = start);

static void expect_advice(const char *part)
{
	mt_rss_limit_attribute(&alarm_, &figures, figures.heap_resident_bytes != 0);
	cr_expect_not_null(strstr(alarm_.advice, part), "%s", alarm_.advice);
	cr_expect_lt(strlen(alarm_.advice), sizeof(alarm_.advice) - 1, "it is cut");
}

Test(alarm, shares_the_heap_out)
{
	figures.heap_live_bytes = MB(500);
	figures.heap_dirty_bytes = MB(40);
	figures.heap_metadata_bytes = MB(10);
	figures.heap_resident_bytes = MB(700);
	figures.gpu_pinned_bytes = MB(7);

	mt_rss_limit_attribute(&alarm_, &figures, true);

	cr_expect_eq(alarm_.heap_live_bytes, MB(500));
	cr_expect_eq(alarm_.heap_dirty_bytes, MB(40));
	cr_expect_eq(alarm_.heap_metadata_bytes, MB(10));
	cr_expect_eq(alarm_.heap_pinned_bytes, MB(150));
	cr_expect_eq(alarm_.other_anon_bytes, MB(200));
	cr_expect_eq(alarm_.gpu_pinned_bytes, MB(7));
}

Test(alarm, never_counts_below_zero)
{
	figures.heap_live_bytes = MB(5000); /* never touched */
	figures.heap_resident_bytes = MB(700);

	mt_rss_limit_attribute(&alarm_, &figures, true);

	cr_expect_eq(alarm_.heap_pinned_bytes, 0);
	cr_expect_eq(alarm_.other_anon_bytes, 0);
}

Test(alarm, takes_what_no_allocator_tells_for_other_memory)
{
	figures.heap_live_bytes = MB(300);

	mt_rss_limit_attribute(&alarm_, &figures, false);

	cr_expect_eq(alarm_.heap_pinned_bytes, 0);
	cr_expect_eq(alarm_.other_anon_bytes, MB(600));
}

Test(alarm, swapped_memory_is_somebodys_too)
{
	alarm_.swap_bytes = MB(100);
	figures.heap_live_bytes = MB(300);

	mt_rss_limit_attribute(&alarm_, &figures, false);

	cr_expect_eq(alarm_.other_anon_bytes, MB(700));
}

Test(alarm, advises_about_the_largest)
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
	alarm_.anon_bytes = MB(50);
	alarm_.file_bytes = MB(800);
	expect_advice("mapped files");
	alarm_.shmem_bytes = MB(900);
	expect_advice("shared memory");
}

Test(alarm, names_page_locked_memory_wherever_it_is_counted)
{
	figures.heap_live_bytes = MB(400);
	figures.gpu_pinned_bytes = MB(400);
	expect_advice("page-locked for CUDA");
}
