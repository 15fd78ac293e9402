/* test_config.c -- core/config: every row of options.def is tried, so a new setting is tested by
 * being there. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/config.h"
#include "core/log.h"
#include "core/core_internal.h"
#include "config_parsed.h"

enum { KIND_bool, KIND_u64, KIND_count, KIND_choice, KIND_text, KIND_signal, KIND_round };
enum { WHEN_start, WHEN_live };

static const struct row {
	const char *name;
	const char *dflt;
	uint64_t min;
	uint64_t max;
	const char *words;
	int kind;
	int when;
} rows[] = {
#define X(name, kind, dflt, min, max, words, when, help)                                           \
	{#name, dflt, min, max, words, KIND_##kind, WHEN_##when},
	MT_OPTIONS(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct mt_config parsed_setting(const struct row *row, const char *value)
{
	char entry[1024];
	size_t i;

	i = (size_t)snprintf(entry, sizeof(entry), "MT_%s=%s", row->name, value);
	cr_assert_lt(i, sizeof(entry));
	for (i = 0; entry[i] != '='; i++)
		if (entry[i] >= 'a' && entry[i] <= 'z')
			entry[i] -= 'a' - 'A';
	return parsed(entry, NULL, NULL);
}

Test(config, starts_with_the_defaults_of_the_table)
{
	struct mt_config config = parsed(NULL, NULL, NULL);
	struct mt_config defaults;

	mt_config_defaults(&defaults);

	cr_expect_eq(said_count, 0);
	cr_expect(memcmp(&config, &defaults, sizeof(config)) == 0);
	cr_expect(memcmp(mt_config(), &defaults, sizeof(config)) == 0,
		  "the live copy has them before it is read");
	for (size_t i = 0; i < ROWS; i++) {
		const char *want = rows[i].dflt;

		if (rows[i].kind == KIND_bool)
			want = *want == '1' ? "on" : "off";
		cr_expect_str_eq(formatted(&config, i), want, "%s", rows[i].name);
		cr_expect_str_eq(origin_of(&config, i), "default");
		cr_expect_str_eq(mt_config_name(i), rows[i].name);
	}
	cr_expect_null(mt_config_name(MT_OPTION_COUNT));
}

Test(config, refuses_rubbish_for_every_setting_in_one_line_and_keeps_the_default)
{
	/* clang-format off */
	static const char *const rubbish[] = {
		"", "rubbish", "-1", "-9223372036854775808", "+5", " 5", "5 ", "5k", "0x10", "1e3", "1.5", "5\n",
		"99999999999999999999999999", "18446744073709551616", "18446744073709551617", "none ", "|", "on|off",
		"auto|", "timer", "timer:", "timer:-1", "\xd9\xa3", "\033[2J\r\n",
	};
	/* clang-format on */
	struct mt_config defaults;

	mt_config_defaults(&defaults);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t j = 0; j < COUNT(rubbish) && rows[i].kind != KIND_text; j++) {
			struct mt_config config;

			config = parsed_setting(&rows[i], rubbish[j]);
			cr_expect_eq(said_count, 1, "%s=%s", rows[i].name, rubbish[j]);
			cr_expect(memcmp(&config, &defaults, sizeof(config)) == 0, "%s=%s",
				  rows[i].name, rubbish[j]);
			cr_expect(strncmp(said[0], "MT_", 3) == 0 &&
					  strstr(said[0], " is taken") != NULL,
				  "%s", said[0]);
			cr_expect_eq(strpbrk(said[0], "\n\r\033"), NULL, "%s", rows[i].name);
			cr_expect_eq(strstr(said[0], "empty") != NULL, *rubbish[j] == '\0', "%s",
				     said[0]);
		}
}

Test(config, takes_the_ends_of_every_range_and_nothing_beyond)
{
	char text[32];

	for (size_t i = 0; i < ROWS; i++) {
		if (rows[i].kind != KIND_u64 && rows[i].kind != KIND_count)
			continue;
		for (int high = 0; high < 2; high++) {
			uint64_t end = high ? rows[i].max : rows[i].min;
			struct mt_config config;

			snprintf(text, sizeof(text), "%llu", (unsigned long long)end);
			config = parsed_setting(&rows[i], text);
			cr_expect_str_eq(formatted(&config, i), text);
			cr_expect_eq(said_count, 0);
			if (!high && end == 0)
				continue;
			snprintf(text, sizeof(text), "%llu",
				 (unsigned long long)(high ? end + 1 : end - 1));
			config = parsed_setting(&rows[i], text);
			cr_expect_str_eq(formatted(&config, i), rows[i].dflt, "%s=%s", rows[i].name,
					 text);
			cr_expect_eq(said_count, 1);
		}
	}
}

Test(config, reads_a_count_as_a_number_or_auto)
{
	static const struct {
		const char *text;
		uint64_t count;
		const char *formatted; /* NULL: refused */
	} cases[] = {
		{"0", 0, "0"},
		{"1", 1, "1"},
		{"007", 7, "7"},
		{"auto", MT_COUNT_AUTO, "auto"},
		{"AUTO", MT_COUNT_AUTO, "auto"},
		{"Auto", MT_COUNT_AUTO, "auto"},
		{"auto ", 0, NULL},
		{"automatic", 0, NULL},
		{"aut", 0, NULL},
		{"-1", 0, NULL},
		{"1.5", 0, NULL},
		{"1000001", 0, NULL},
		{"18446744073709551615", 0, NULL},
		{"on", 0, NULL},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct mt_config config = parsed_setting(&rows[MT_OPTION_gc_rounds], cases[i].text);

		cr_expect_eq(config.gc_rounds, cases[i].count, "%s", cases[i].text);
		cr_expect_eq(said_count, cases[i].formatted == NULL, "%s", cases[i].text);
		cr_expect_str_eq(formatted(&config, MT_OPTION_gc_rounds),
				 cases[i].formatted ? cases[i].formatted : "0");
	}
	cr_expect_eq(parsed("NVFLARE_CLIENT_MEMORY_GC_ROUNDS=auto", NULL, NULL).gc_rounds,
		     MT_COUNT_AUTO);
	(void)parsed("MT_GC_ROUNDS=often", NULL, NULL);
	cr_expect_str_eq(said[0], "MT_GC_ROUNDS=often: not valid (0..1000000|auto); 0 is taken");
}

Test(config, knows_every_word_of_bools_and_choices_in_any_case)
{
	static const char *const bools[][2] = {{"0", "off"},   {"1", "on"},     {"on", "on"},
					       {"Off", "off"}, {"yes", "on"},   {"NO", "off"},
					       {"True", "on"}, {"false", "off"}};

	for (size_t i = 0; i < ROWS; i++) {
		char words[128];

		for (size_t j = 0; j < COUNT(bools) && rows[i].kind == KIND_bool; j++) {
			struct mt_config config = parsed_setting(&rows[i], bools[j][0]);

			cr_expect_str_eq(formatted(&config, i), bools[j][1], "%s=%s", rows[i].name,
					 bools[j][0]);
			cr_expect_eq(said_count, 0);
		}
		snprintf(words, sizeof(words), "%s", rows[i].words);
		for (char *word = strtok(words, "|"); word != NULL; word = strtok(NULL, "|")) {
			struct mt_config config = parsed_setting(&rows[i], word);

			cr_expect_str_eq(formatted(&config, i), word, "%s", rows[i].name);
			cr_expect_eq(said_count, 0);
		}
	}
	cr_expect_eq(parsed("MT_LOG_LEVEL=DEBUG", NULL, NULL).log_level, MT_LOG_DEBUG);
	cr_expect_eq(parsed("MT_ALLOCATOR=system", NULL, NULL).allocator, MT_ALLOCATOR_SYSTEM);
	cr_expect_eq(parsed("MT_PYTHON_MALLOC=off", NULL, NULL).python_malloc,
		     MT_PYTHON_MALLOC_OFF);
}

Test(config, takes_a_text_of_255_bytes_or_none_and_refuses_256)
{
	char text[MT_TEXT_MAX + 1];

	memset(text, 'x', sizeof(text));
	text[MT_TEXT_MAX] = '\0';
	for (size_t i = 0; i < ROWS; i++) {
		struct mt_config config;

		if (rows[i].kind != KIND_text)
			continue;
		config = parsed_setting(&rows[i], text);
		cr_expect_str_empty(formatted(&config, i));
		cr_expect_eq(said_count, 1);
		cr_expect_lt(strlen(said[0]), 200, "a long value is cut: %s", said[0]);
		cr_expect_not_null(
			strstr(said[0],
			       "xxx...: not valid (text of at most 255 bytes); no value is taken"));
		config = parsed_setting(&rows[i], text + 1);
		cr_expect_str_eq(formatted(&config, i), text + 1);
		cr_expect_eq(said_count, 0);
		config = parsed_setting(&rows[i], "");
		cr_expect_str_empty(formatted(&config, i));
		cr_expect_str_eq(origin_of(&config, i), "environment");
		cr_expect_eq(said_count, 0);
	}
}

Test(config, reads_signals_in_all_their_spellings)
{
	const struct row *row = &rows[MT_OPTION_signal];
	const struct {
		const char *text;
		int number; /* -1: refused */
		const char *formatted;
	} cases[] = {
		/* clang-format off */
		{ "USR1", SIGUSR1, "USR1" }, { "SIGUSR1", SIGUSR1, "USR1" }, { "sigusr2", SIGUSR2, "USR2" },
		{ "10", SIGUSR1, "USR1" }, { "RTMIN", SIGRTMIN, "RTMIN+0" }, { "RTMIN+3", SIGRTMIN + 3, "RTMIN+3" },
		{ "SIGRTMIN+30", 64, "RTMIN+30" }, { "64", 64, "RTMIN+30" }, { "1", -1, "" }, { "15", -1, "" },
		{ "none", 0, "none" }, { "SIGnone", -1, "" }, { "SIG10", -1, "" }, { "9", -1, "" }, { "11", -1, "" },
		{ "17", -1, "" }, { "19", -1, "" }, { "5", -1, "" }, { "6", -1, "" }, { "32", -1, "" },
		{ "33", -1, "" }, { "65", -1, "" }, { "KILL", -1, "" }, { "RTMIN+31", -1, "" }, { "RTMIN-1", -1, "" },
		{ "RTMIN+", -1, "" }, { "USR12", -1, "" }, { "SIG", -1, "" },
		/* clang-format on */
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct mt_config config = parsed_setting(row, cases[i].text);

		cr_expect_eq(said_count, cases[i].number < 0, "%s", cases[i].text);
		cr_expect_eq(config.signal,
			     (uint64_t)(cases[i].number < 0 ? SIGUSR1 : cases[i].number), "%s",
			     cases[i].text);
		if (cases[i].number >= 0)
			cr_expect_str_eq(formatted(&config, MT_OPTION_signal), cases[i].formatted);
	}
}

Test(config, reads_what_ends_a_round)
{
	struct mt_config config = parsed("MT_ROUND=timer:30", NULL, NULL);

	cr_expect_eq(mt_round_mode_of(config.round), MT_ROUND_TIMER);
	cr_expect_eq(mt_round_seconds_of(config.round), 30);
	cr_expect_eq(mt_round_seconds_of(parsed("MT_ROUND=timer:86400", NULL, NULL).round), 86400);
	cr_expect_eq(parsed("MT_ROUND=auto", NULL, NULL).round, MT_ROUND_AUTO);
	cr_expect_eq(parsed("MT_ROUND=signal", NULL, NULL).round, MT_ROUND_SIGNAL);
	cr_expect_eq(parsed("MT_ROUND=timer:0", NULL, NULL).round, MT_ROUND_MARK);
	cr_expect_str_eq(said[0], "MT_ROUND=timer:0: not valid (timer:SECONDS|mark|signal|auto, "
				  "SECONDS 1..86400); mark is taken");
	cr_expect_eq(parsed("MT_ROUND=timer:86401", NULL, NULL).round, MT_ROUND_MARK);
}

Test(config, formats_what_it_was_set_to)
{
	static const char *const pairs[][2] = {
		{"round", "timer:30"},   {"round", "mark"},        {"round", "signal"},
		{"round", "auto"},       {"round", "timer:86400"}, {"profile", "on"},
		{"profile", "off"},      {"log_level", "debug"},   {"tick_ms", "60000"},
		{"slack_mb", "1048576"}, {"gc_rounds", "0"},       {"gc_rounds", "auto"},
	};
	struct mt_config config;
	char small[6];

	mt_config_defaults(&config);
	for (size_t i = 0; i < COUNT(pairs); i++)
		for (size_t j = 0; j < ROWS; j++)
			if (strcmp(rows[j].name, pairs[i][0]) == 0) {
				cr_expect_eq(mt_config_set(&config, pairs[i][0], pairs[i][1]),
					     MT_ERR_OK, "%s", pairs[i][1]);
				cr_expect_str_eq(formatted(&config, j), pairs[i][1]);
				cr_expect_str_eq(origin_of(&config, j), "mtctl set");
			}
	cr_assert_eq(mt_config_set(&config, "round", "timer:30"), MT_ERR_OK);
	mt_config_format(&config, MT_OPTION_round, small, sizeof(small));
	cr_expect_str_eq(small, "timer", "cut to fit");
	mt_config_format(&config, MT_OPTION_COUNT, small, sizeof(small));
	cr_expect_str_empty(small);
}

Test(config, set_says_why_not_and_touches_nothing)
{
	static const struct {
		const char *name;
		const char *value;
		enum mt_err err;
	} cases[] = {
		/* clang-format off */
		{ "gc_rounds", "3", MT_ERR_OK }, { "MT_GC_ROUNDS", "3", MT_ERR_OK },
		{ "mt_Gc_roundS", "3", MT_ERR_OK }, { "gc_round", "3", MT_ERR_UNKNOWN },
		{ "gc_rounds ", "3", MT_ERR_UNKNOWN }, { "", "3", MT_ERR_UNKNOWN }, { "MT_", "3", MT_ERR_UNKNOWN },
		{ "MT_MT_GC_ROUNDS", "3", MT_ERR_UNKNOWN }, { "allocator", "system", MT_ERR_START_ONLY },
		{ "min_mb", "rubbish", MT_ERR_START_ONLY }, { "tick_ms", "9", MT_ERR_RANGE },
		{ "tick_ms", "60001", MT_ERR_RANGE }, { "tick_ms", "1844674407370955162", MT_ERR_RANGE },
		{ "tick_ms", "18446744073709551716", MT_ERR_RANGE }, { "tick_ms", "-3", MT_ERR_INVALID },
		{ "tick_ms", "", MT_ERR_INVALID }, { "profile", "2", MT_ERR_INVALID },
		{ "round", "timer:0", MT_ERR_RANGE }, { "round", "timer:x", MT_ERR_INVALID },
		{ "log_level", "loud", MT_ERR_INVALID },
		/* clang-format on */
	};
	struct mt_config defaults;

	mt_config_defaults(&defaults);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct mt_config config = defaults;

		cr_expect_eq(mt_config_set(&config, cases[i].name, cases[i].value), cases[i].err,
			     "%s=%s", cases[i].name, cases[i].value);
		if (cases[i].err == MT_ERR_OK)
			cr_expect_eq(config.gc_rounds, 3);
		else
			cr_expect(memcmp(&config, &defaults, sizeof(config)) == 0, "%s",
				  cases[i].name);
	}
}

Test(config, sets_every_live_setting_and_no_other)
{
	for (size_t i = 0; i < ROWS; i++) {
		enum mt_err err = mt_config_set_live(rows[i].name, rows[i].dflt);

		cr_expect_eq(err, rows[i].when == WHEN_live ? MT_ERR_OK : MT_ERR_START_ONLY, "%s",
			     rows[i].name);
		cr_expect_str_eq(origin_of(mt_config(), i),
				 rows[i].when == WHEN_live ? "mtctl set" : "default");
		/* A reader must never meet half of a value: only numbers, stored at once, may
		 * change while it runs. */
		cr_expect_not(rows[i].kind == KIND_text && rows[i].when == WHEN_live, "%s",
			      rows[i].name);
	}
}

Test(config, lets_a_preset_give_way_to_aliases_and_those_to_its_own_names)
{
	struct mt_config config = parsed("MT_PRESET=client", NULL, NULL);

	cr_expect_eq(config.arena_max, 2);
	cr_expect_eq(config.gc_rounds, 1);
	cr_expect_eq(config.cuda_empty_cache, 1);
	cr_expect_str_eq(origin_of(&config, MT_OPTION_arena_max), "preset client");
	cr_expect_str_eq(origin_of(&config, MT_OPTION_preset), "environment");
	config = parsed("MALLOC_ARENA_MAX=7", "MT_PRESET=server-wide", NULL);
	cr_expect_eq(config.arena_max, 7);
	cr_expect_str_eq(origin_of(&config, MT_OPTION_arena_max), "MALLOC_ARENA_MAX");
	cr_expect_str_eq(origin_of(&config, MT_OPTION_gc_rounds), "preset server-wide");
	config = parsed("MT_ARENA_MAX=9", "MALLOC_ARENA_MAX=7", "MT_PRESET=server-wide");
	cr_expect_eq(config.arena_max, 9);
	cr_expect_str_eq(origin_of(&config, MT_OPTION_arena_max), "environment");
	cr_expect_eq(said_count, 0);
}

Test(config, knows_the_names_of_other_tools)
{
#define X(alias, option)                                                                           \
	do {                                                                                       \
		struct mt_config config = parsed(alias "=1", NULL, NULL);                          \
                                                                                                   \
		cr_expect_eq(config.option, 1, alias);                                             \
		cr_expect_str_eq(origin_of(&config, MT_OPTION_##option), alias);                   \
		config = parsed(alias "=-1", NULL, NULL);                                          \
		cr_expect_eq(config.option, 0, alias);                                             \
		cr_expect_str_eq(origin_of(&config, MT_OPTION_##option), "default");               \
		cr_expect_eq(said_count, 1, alias);                                                \
		cr_expect(strncmp(said[0], alias "=-1: not ", sizeof(alias "=-1: not ") - 1) == 0, \
			  "%s", said[0]);                                                          \
		config = parsed(alias "X=1", NULL, NULL);                                          \
		cr_expect_eq(config.option, 0, alias);                                             \
		cr_expect_eq(said_count, 0, "not ours to judge");                                  \
	} while (0);
	MT_ALIASES(X)
#undef X
	parsed("MALLOC_ARENA_MAX=5000", NULL, NULL);
	cr_expect_str_eq(said[0], "MALLOC_ARENA_MAX=5000: not valid (0..1024); 0 is taken");
}

Test(config, says_what_is_really_taken_instead)
{
	struct mt_config config = parsed("MT_GC_ROUNDS=-3", NULL, NULL);

	cr_expect_str_eq(said[0], "MT_GC_ROUNDS=-3: not valid (0..1000000|auto); 0 is taken");
	config = parsed("MT_GC_ROUNDS=-3", "NVFLARE_CLIENT_MEMORY_GC_ROUNDS=4", "MT_PRESET=server");
	cr_expect_eq(config.gc_rounds, 4);
	cr_expect_str_eq(said[0], "MT_GC_ROUNDS=-3: not valid (0..1000000|auto); 4 is taken");
	config = parsed("NVFLARE_CLIENT_MEMORY_GC_ROUNDS=x", "MT_GC_ROUNDS=6", NULL);
	cr_expect_str_eq(said[0], "NVFLARE_CLIENT_MEMORY_GC_ROUNDS=x: not valid "
				  "(0..1000000|auto); 6 is taken");
	cr_expect_eq(said_count, 1);
	config = parsed("MT_PRESET=sever", NULL, NULL);
	cr_expect_str_eq(said[0], "MT_PRESET=sever: not valid "
				  "(none|client|server|server-wide|swarm|csfl); none is taken");
}

Test(config, says_which_name_does_not_exist)
{
	char entry[300] = "MT_";

	parsed("MT_GC_ROUND=1", NULL, NULL);
	cr_expect_eq(said_count, 1);
	cr_expect_str_eq(said[0], "MT_GC_ROUND: no such setting (mtctl options)");
	parsed("MT_\033[31m=1", NULL, NULL);
	cr_expect_str_eq(said[0], "MT_?[31m: no such setting (mtctl options)");
	memset(entry + 3, 'A', 200);
	strcpy(entry + 203, "=1");
	parsed(entry, NULL, NULL);
	cr_expect_eq(strlen(said[0]), strlen("...: no such setting (mtctl options)") + 60);
}

Test(config, leaves_single_what_is_not_for_it)
{
	struct mt_config config = parsed("mt_gc_rounds=3", "NMT_GC_ROUNDS=3", "MT");

	cr_expect_eq(config.gc_rounds, 0);
	cr_expect_eq(said_count, 0);
	config = parsed("MT_GC_ROUNDS", "=MT_GC_ROUNDS=3", "M");
	cr_expect_eq(config.gc_rounds, 0, "an entry without a value is no setting");
	cr_expect_eq(said_count, 0);
	config = parsed("MT_GC_ROUNDS=3", "MT_GC_ROUNDS=4", NULL);
	cr_expect_eq(config.gc_rounds, 3, "of two the first, as getenv has it");
	mt_config_parse(NULL, &config, hear);
	cr_expect_eq(config.gc_rounds, 0);
}
