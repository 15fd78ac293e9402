/* test_config_presets.c -- core/config: a preset is its settings and nothing else. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/config.h"
#include "core/core_internal.h"
#include "config_parsed.h"

#define X(name, kind, dflt, min, max, words, when, help)                                           \
	static const char name##_words[] __attribute__((unused)) = words;
MT_OPTIONS(X)
#undef X

Test(config_presets, holds_presets_that_are_all_words_of_the_setting_and_all_valid)
{
#define X(preset, option, value)                                                                   \
	do {                                                                                       \
		char entry[64] = "MT_PRESET=" #preset;                                             \
		struct mt_config config;                                                           \
                                                                                                   \
		for (char *c = entry + 10; *c != '\0'; c++)                                        \
			*c = *c == '_' ? '-' : *c;                                                 \
		config = parsed(entry, NULL, NULL);                                                \
		cr_expect_eq(said_count, 0, "%s", entry);                                          \
		cr_expect_eq(config.option, value, "%s " #option, entry);                          \
		cr_expect_eq(config.origin[MT_OPTION_##option], MT_ORIGIN_PRESET, "%s " #option,   \
			     entry);                                                               \
	} while (0);
	MT_PRESETS(X)
#undef X
}

/* What MT_PRESET=word has to give, from the table alone. */
static struct mt_config expected_of(const char *preset)
{
	struct mt_config config;

	mt_config_defaults(&config);
#define X(name, option, value)                                                                     \
	if (strcmp(preset, #name) == 0) {                                                          \
		config.option = value;                                                             \
		config.origin[MT_OPTION_##option] = MT_ORIGIN_PRESET;                              \
	}
	MT_PRESETS(X)
#undef X
	return config;
}

Test(config_presets, holds_presets_that_are_nothing_but_their_settings)
{
	static const char *const presets[] = {"none",
#define X(preset, role) #preset,
					      MT_PRESET_ROLES(X)
#undef X
	};
	char words[128];
	size_t words_count = 0;

	for (size_t i = 0; i < COUNT(presets); i++) {
		struct mt_config wanted = expected_of(presets[i]);
		struct mt_config config;
		char entry[64];

		snprintf(entry, sizeof(entry), "MT_PRESET=%s", presets[i]);
		for (char *c = entry + 10; *c != '\0'; c++)
			*c = *c == '_' ? '-' : *c;
		config = parsed(entry, NULL, NULL);
		cr_expect_eq(said_count, 0, "%s", entry);
		cr_expect_eq(config.preset, i, "the roles stand in the order of the words: %s",
			     entry);
		wanted.preset = config.preset;
		wanted.origin[MT_OPTION_preset] = MT_ORIGIN_ENVIRONMENT;
		cr_expect(memcmp(&config, &wanted, sizeof(config)) == 0, "%s", entry);
	}
	snprintf(words, sizeof(words), "%s", preset_words);
	for (char *word = strtok(words, "|"); word != NULL; word = strtok(NULL, "|"))
		words_count++;
	cr_expect_eq(words_count, COUNT(presets), "each word has a role");
}

Test(config_presets, lets_every_setting_of_a_preset_be_overridden)
{
#define X(preset, option, value)                                                                   \
	do {                                                                                       \
		char list[64] = "MT_PRESET=" #preset;                                              \
		char own[64] = "MT_" #option "=1";                                                 \
		struct mt_config config;                                                           \
                                                                                                   \
		for (char *c = list + 10; *c != '\0'; c++)                                         \
			*c = *c == '_' ? '-' : *c;                                                 \
		for (char *c = own; *c != '='; c++)                                                \
			*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;                 \
		config = parsed(own, list, NULL);                                                  \
		cr_expect_eq(config.option, 1, "%s over %s", own, list);                           \
		cr_expect_str_eq(origin_of(&config, MT_OPTION_##option), "environment");           \
		cr_expect_eq(said_count, 0);                                                       \
	} while (0);
	MT_PRESETS(X)
#undef X
}
