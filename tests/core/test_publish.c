/* test_publish.c -- what a reader of the stats file sees of cleanups, and the counters of cleanups
 * that the purge policy takes. No files are made: only the copy in memory is read. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/publish.h"

static struct mt_stats_file seen;

Test(publish, cleanups_are_numbered_and_counted_by_reason_but_for_merged_ones)
{
	struct mt_stats_cleanup idle = {.reason = MT_REASON_IDLE},
				merged = {.reason = MT_REASON_IDLE, .merged = 1};

	mt_publish_queue_cleanup(&merged);
	mt_publish_add_cleanup(&idle);
	mt_publish_copy(&seen);

	cr_expect_eq(merged.number, 1u);
	cr_expect_eq(idle.number, 2u);
	cr_expect_eq(seen.head.cleanups_count, 2u);
	cr_expect_eq(seen.head.cleanups_by_reason[MT_REASON_IDLE], 1u);
	cr_expect_eq(seen.cleanups[1].number, 2u);
}

Test(publish, skipped_numbers_are_given_to_no_cleanup)
{
	struct mt_stats_cleanup cleanup = {.reason = MT_REASON_IDLE};

	mt_publish_skip_cleanups(MT_CLEANUPS_COUNT + 3);
	mt_publish_add_cleanup(&cleanup);
	mt_publish_copy(&seen);

	cr_expect_eq(cleanup.number, MT_CLEANUPS_COUNT + 4u);
	cr_expect_eq(seen.cleanups[3].number, cleanup.number);
}

Test(publish, a_dump_goes_a_minute_after_it_was_put_in_place)
{
	uint64_t none_ns = 0, placed_ns = 5, minute_ns = 60000000000u;

	cr_expect_eq(mt_publish_expire_dump(MT_DUMP_HEAP, &none_ns, 1), UINT64_MAX);
	cr_expect_eq(mt_publish_expire_dump(MT_DUMP_HEAP, &placed_ns, 6), 5 + minute_ns);
	cr_expect_eq(mt_publish_expire_dump(MT_DUMP_HEAP, &placed_ns, 5 + minute_ns), UINT64_MAX);
	cr_expect_eq(placed_ns, 0u);
}

Test(cleanup, bytes_of_the_program_are_taken_once)
{
	mt_cleanup_add_program_bytes(40);
	mt_cleanup_add_program_bytes(2);

	cr_expect_eq(mt_cleanup_take_program_bytes(), 42u);
	cr_expect_eq(mt_cleanup_take_program_bytes(), 0u);
}

Test(cleanup, a_forked_child_has_none_of_its_parents_bytes)
{
	mt_cleanup_add_program_bytes(1);
	mt_cleanup_fork_child();

	cr_expect_eq(mt_cleanup_take_program_bytes(), 0u);
}

Test(cleanup, merged_requests_take_numbers_and_count_by_level)
{
	const uint64_t counts[MT_LEVEL_COUNT] = {[MT_LEVEL_LIGHT] = 2, [MT_LEVEL_HEAVY] = 3};

	mt_cleanup_count_merged(counts);
	mt_publish_copy(&seen);

	cr_expect_eq(seen.head.cleanups_count, 5u);
	cr_expect_eq(seen.head.snapshot.light_count, 2u);
	cr_expect_eq(seen.head.snapshot.heavy_count, 3u);
	cr_expect_eq(seen.head.snapshot.purge_count, 0u);
}
