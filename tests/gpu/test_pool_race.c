/* test_pool_race.c -- the model of tests/stress/pool_model.h with few operations, so that
 * ThreadSanitizer sees it too. */
#include <criterion/criterion.h>

#include "tests/stress/pool_model.h"

static void play(struct model_options options)
{
	struct model_result result = model_run(&options);

	cr_expect_eq(result.stale, 0);
	cr_expect_eq(result.wrongs, 0);
	cr_expect_eq(result.ledger_blocks, 0);
	cr_expect_eq(result.ledger_events, 0);
	cr_expect_gt(result.hits, 0);
}

Test(pool_race, threads_and_a_worker)
{
	play((struct model_options){
		.operations = 200000, .threads = 8, .worker = true, .ooms = true});
}

Test(pool_race, captures_and_deaths)
{
	play((struct model_options){.operations = 100000,
				    .threads = 8,
				    .worker = true,
				    .ooms = true,
				    .captures = true,
				    .deaths = true});
}
