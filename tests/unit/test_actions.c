/* test_actions.c -- reaper/actions: what a purge tells of itself, over libc's own allocator. */
#include <criterion/criterion.h>

#include "backend/backend.h"
#include "base/config.h"
#include "base/os.h"
#include "reaper/actions.h"
#include "valgrind.h"

#define MB     MT_MIB
#define BYTES  5000ul
#define BLOCKS (64 * MB / BYTES)
#define KEPT   50 /* of so many one stays: no end of the heap can go down far */

static void *blocks[BLOCKS];

static void begin(void)
{
	static struct mt_backend_hooks hooks;
	const char *environment[] = {"MT_ALLOCATOR=system", NULL};

	mt_config_read(environment);
	(void)mt_backend_choose(mt_config(), &hooks);
}

static void hoard(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = memset(malloc(BYTES), 1, BYTES);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % KEPT)
			free(blocks[i]);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they bring their own malloc */
Test(actions, tell_what_a_purge_has_given_back_of_addresses_that_stay, .init = begin)
{
	const struct mt_order order = {.reason = MT_REASON_REQUEST, .level = MT_LEVEL_PURGE};
	struct mt_stats_record record;
	uint64_t discarded;

	if (is_under_valgrind()) /* nor is it there */
		return;
	cr_expect_eq(mt_actions_discarded_bytes(), 0);
	hoard();
	mt_actions_clean(&order, &record);
	discarded = mt_actions_discarded_bytes();
	cr_expect_geq(discarded, 20 * MB, "%llu bytes", (unsigned long long)discarded);
	cr_expect_leq(discarded, record.rss_before_bytes - record.rss_after_bytes + MB);
	cr_expect_eq(mt_actions_discarded_bytes(), 0, "told once");
	mt_actions_clean(&order, &record);
	cr_expect_leq(mt_actions_discarded_bytes(), MB, "nothing is left to go");
}
#endif

Test(actions, forget_it_in_a_forked_child, .init = begin)
{
	const struct mt_order order = {.reason = MT_REASON_REQUEST, .level = MT_LEVEL_PURGE};
	struct mt_stats_record record;

	hoard();
	mt_actions_clean(&order, &record);
	mt_actions_fork_child();
	cr_expect_eq(mt_actions_discarded_bytes(), 0);
}
