/* test_rounds.c -- purge/rounds: the exact cadence of light and heavy cleanups. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "purge/purge.h"
#include "sys/os.h"
#include "core/core_internal.h"

#define ROUNDS 12

/* What each of the first rounds asks for: '-' nothing, 'l' a light cleanup, 'h' a heavy one. */
static const char *cadence(uint64_t gc_rounds, uint64_t heavy_rounds, bool empty_cache)
{
	static char line[ROUNDS + 1];
	struct mt_config config;

	mt_config_defaults(&config);
	config.heavy_rounds = heavy_rounds;
	config.cuda_empty_cache = empty_cache;
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		enum mt_level level = MT_LEVEL_PURGE;

		line[round - 1] = '-';
		if (mt_rounds_due(round, gc_rounds, &config, &level))
			line[round - 1] = level == MT_LEVEL_HEAVY   ? 'h'
					  : level == MT_LEVEL_LIGHT ? 'l'
								    : '?';
	}
	return line;
}

Test(rounds, keep_to_their_cadence)
{
	static const struct {
		uint64_t gc_rounds, heavy_rounds;
		bool empty_cache;
		const char *line;
	} rows[] = {
		{0, 0, false, "------------"},       {0, 0, true, "------------"},
		{1, 0, false, "llllllllllll"},       {2, 0, false, "-l-l-l-l-l-l"},
		{3, 0, false, "--l--l--l--l"},       {5, 0, false, "----l----l--"},
		{12, 0, false, "-----------l"},      {13, 0, false, "------------"},
		{1000000, 0, false, "------------"}, {0, 1, false, "hhhhhhhhhhhh"},
		{0, 4, false, "---h---h---h"},       {1, 1, false, "hhhhhhhhhhhh"},
		{2, 4, false, "-l-h-l-h-l-h"},       {2, 3, false, "-lhl-h-lhl-h"},
		{5, 10, false, "----l----h--"},      {3, 2, false, "-hlh-h-hlh-h"},
		{2, 0, true, "-h-h-h-h-h-h"},        {3, 2, true, "-hhh-h-hhh-h"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_str_eq(
			cadence(rows[i].gc_rounds, rows[i].heavy_rounds, rows[i].empty_cache),
			rows[i].line, "row %zu", i);
}

Test(rounds, leave_the_level_single_where_nothing_is_due)
{
	enum mt_level level = MT_LEVEL_PURGE;
	struct mt_config config;

	mt_config_defaults(&config);
	cr_expect_not(mt_rounds_due(1, config.gc_rounds, &config, &level), "never is the default");
	config.heavy_rounds = 5;
	cr_expect_not(mt_rounds_due(3, 2, &config, &level));
	cr_expect_eq(level, MT_LEVEL_PURGE);
}

Test(rounds, keep_their_cadence_beyond_all_counting)
{
	const uint64_t far = UINT64_MAX - UINT64_MAX % 6; /* a multiple of 2 and of 3 */
	enum mt_level level = MT_LEVEL_PURGE;
	struct mt_config config;

	mt_config_defaults(&config);
	config.heavy_rounds = 3;
	cr_expect(mt_rounds_due(far, 2, &config, &level));
	cr_expect_eq(level, MT_LEVEL_HEAVY);
	cr_expect(mt_rounds_due(far - 2, 2, &config, &level));
	cr_expect_eq(level, MT_LEVEL_LIGHT);
	cr_expect_not(mt_rounds_due(far - 1, 2, &config, &level));
}

Test(rounds, are_missing_where_a_preset_waits_for_them_and_ten_minutes_have_brought_none)
{
	const uint64_t ten_minutes_ns = 600 * MT_NS_PER_S;
	struct mt_config config;

	mt_config_defaults(&config);
	config.gc_rounds = 1;
	cr_expect_not(mt_rounds_are_missing(&config, 0, UINT64_MAX), "no preset");
	config.preset = 1;
	cr_expect(mt_rounds_are_missing(&config, 0, ten_minutes_ns));
	cr_expect(mt_rounds_are_missing(&config, 0, UINT64_MAX));
	cr_expect_not(mt_rounds_are_missing(&config, 0, ten_minutes_ns - 1));
	cr_expect_not(mt_rounds_are_missing(&config, 1, UINT64_MAX));
	config.gc_rounds = 0;
	cr_expect_not(mt_rounds_are_missing(&config, 0, UINT64_MAX), "nothing is due at a round");
	config.heavy_rounds = 10;
	cr_expect(mt_rounds_are_missing(&config, 0, UINT64_MAX));
}

static void *end_many(void *unused)
{
	uint64_t before = 0;

	(void)unused;
	for (int i = 0; i < 10000; i++) {
		uint64_t number = mt_rounds_end();

		cr_expect_gt(number, before, "each its own, and rising");
		before = number;
	}
	return NULL;
}

Test(rounds, count_from_one_and_lose_none_between_threads)
{
	pthread_t threads[4];

	cr_expect_eq(mt_rounds_count(), 0);
	cr_expect_eq(mt_rounds_end(), 1);
	cr_expect_eq(mt_rounds_count(), 1);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, end_many, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(mt_rounds_count(), 40001);
}

Test(rounds, begin_again_in_a_forked_child)
{
	(void)mt_rounds_end();
	(void)mt_rounds_end();
	mt_rounds_fork_child();
	cr_expect_eq(mt_rounds_count(), 0);
	cr_expect_eq(mt_rounds_end(), 1);
}
