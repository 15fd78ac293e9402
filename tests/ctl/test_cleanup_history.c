/* tests/ctl/test_cleanup_history.c -- cleanups as a person reads them: a collection that ran late
 * belongs to the cleanup that asked for it. */
#include <criterion/criterion.h>

#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/figures/stats_file.h"

static struct mt_target target;
static struct mt_cleanup_entry stories[MT_CLEANUPS_COUNT];

/* A cleanup at `second`, the next one in the ring. */
static struct mt_stats_cleanup *add(uint32_t reason, uint32_t gc_state, uint64_t second)
{
	uint64_t number = ++target.file.head.cleanups_count;
	struct mt_stats_cleanup *cleanup = &target.file.cleanups[(number - 1) % MT_CLEANUPS_COUNT];

	*cleanup = (struct mt_stats_cleanup){.number = number,
					     .time_ns = second * 1000000000u,
					     .reason = reason,
					     .gc_state = gc_state};
	return cleanup;
}

/* As the process writes it when Python's main thread is back: 1,234 objects, 30 MB less. */
static void add_late(uint64_t second)
{
	struct mt_stats_cleanup *late = add(MT_REASON_LATE_GC, MT_GC_DONE, second);

	late->gc_collected_count = 1234;
	late->rss_before_bytes = 100u << 20;
	late->rss_after_bytes = 70u << 20;
}

/* What `mtctl stat --json` has as late_of for the cleanup of this number; 0: null. */
static json_int_t late_of(size_t number)
{
	json_t *root = mt_stats_json(&target);
	json_int_t value = json_integer_value(json_object_get(
		json_array_get(json_object_get(root, "records"), number - 1), "late_of"));

	json_decref(root);
	return value;
}

static void forget(void)
{
	memset(&target, 0, sizeof(target));
}

TestSuite(cleanup_history, .init = forget);

Test(cleanup_history, a_late_collection_is_told_with_the_cleanup_that_asked_for_it)
{
	add(MT_REASON_IDLE, MT_GC_DONE, 1);
	add(MT_REASON_ROUND, MT_GC_LATE, 10);
	add_late(13);
	add(MT_REASON_IDLE, MT_GC_NONE, 20);

	cr_assert_eq(mt_cleanup_history(&target.file, stories), 3);
	cr_expect_null(stories[0].late, "it had its collection");
	cr_expect_eq(stories[1].cleanup->number, 2);
	cr_expect_eq(stories[1].late, &target.file.cleanups[2]);
	cr_expect_str_eq(mt_cleanup_gc_text(&stories[1]).text,
			 "1,234 objects, 3.0 s later, -30.0 MB");
	cr_expect_null(stories[2].late, "it came after the collection");
	cr_expect_eq(late_of(3), 2);
	cr_expect_eq(late_of(2), 0);
}

/* Two cleanups ask while the main thread is away: one collection serves both. */
Test(cleanup_history, one_late_collection_serves_all_that_wait)
{
	add(MT_REASON_ROUND, MT_GC_BLOCKED, 10);
	add(MT_REASON_REQUEST, MT_GC_LATE, 12);
	add_late(15);
	add(MT_REASON_ROUND, MT_GC_LATE, 20);
	add_late(21);

	cr_assert_eq(mt_cleanup_history(&target.file, stories), 3);
	cr_expect(!stories[0].has_joined && stories[1].has_joined && !stories[2].has_joined);
	cr_expect_str_eq(mt_cleanup_gc_text(&stories[1]).text, "ran 3.0 s later");
	cr_expect_eq(late_of(3), 1, "the one that asked first");
	cr_expect_eq(late_of(5), 4);
}

/* malloc asked for it, or the ring has forgotten who did. */
Test(cleanup_history, a_late_collection_that_nobody_kept_asked_for_stands_alone)
{
	add(MT_REASON_ROUND, MT_GC_LATE, 1);
	for (uint64_t i = 0; i < MT_CLEANUPS_COUNT - 1; i++)
		add(MT_REASON_IDLE, MT_GC_NONE, 2 + i);
	add_late(400);

	cr_assert_eq(mt_cleanup_history(&target.file, stories), MT_CLEANUPS_COUNT);
	cr_expect_eq(stories[MT_CLEANUPS_COUNT - 1].cleanup->reason, MT_REASON_LATE_GC);
	cr_expect_eq(late_of(MT_CLEANUPS_COUNT), 0);
}
