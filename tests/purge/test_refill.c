/* test_refill.c -- when memory that was purged is suspected to be resident again. */
#include <criterion/criterion.h>

#include "purge/policy.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define THRESHOLD (16 * MT_MIB)

static struct mt_refill refill;

static struct mt_snapshot at(uint64_t seconds, uint64_t anon_mib, uint64_t live_mib)
{
	return (struct mt_snapshot){.now_ns = seconds * MT_NS_PER_S,
				    .anon_bytes = anon_mib * MT_MIB,
				    .live_bytes = live_mib * MT_MIB};
}

static void purged(uint64_t seconds, uint64_t anon_mib, uint64_t live_mib)
{
	struct mt_snapshot after = at(seconds, anon_mib, live_mib);

	mt_policy_refill_note_purge(&refill, &after);
}

static bool is_suspected(uint64_t seconds, uint64_t anon_mib, uint64_t live_mib, uint64_t dirty_mib)
{
	struct mt_snapshot now = at(seconds, anon_mib, live_mib);

	return mt_policy_refill_is_suspected(&refill, &now, dirty_mib * MT_MIB, THRESHOLD);
}

Test(refill, is_what_rises_above_live_and_dirty_bytes_after_a_purge)
{
	purged(0, 60, 40);
	cr_expect_not(is_suspected(10, 75, 40, 0));
	cr_expect_not(is_suspected(11, 90, 70, 0), "the program allocates");
	cr_expect_not(is_suspected(12, 90, 40, 30), "it has freed, and nothing is purged yet");
	cr_expect(is_suspected(13, 76, 40, 0));
}

Test(refill, is_nothing_before_the_first_purge)
{
	cr_expect_not(is_suspected(100, 1000, 10, 0));
}

Test(refill, is_found_after_a_purge_that_left_nothing_unexplained)
{
	purged(0, 40, 40);
	cr_expect(is_suspected(10, 60, 40, 0));
}

Test(refill, counts_from_the_lowest_point_since_the_purge)
{
	purged(0, 100, 40);
	cr_expect_not(is_suspected(10, 60, 40, 0));
	cr_expect(is_suspected(20, 80, 40, 0));
}

Test(refill, is_looked_for_seldom_where_that_did_not_help)
{
	struct mt_snapshot then = at(2, 60, 40);

	purged(0, 60, 40);
	cr_expect_not(is_suspected(1, 100, 40, 0));
	cr_expect(is_suspected(2, 100, 40, 0));
	for (int i = 0; i < 20; i++)
		mt_policy_refill_note_look(&refill, &then, false);
	purged(2, 60, 40);
	cr_expect_not(is_suspected(3600, 100, 40, 0));
	cr_expect(is_suspected(3602, 100, 40, 0));
}
