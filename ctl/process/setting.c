/* ctl/process/setting.c -- see setting.h. */
#include "ctl/process/setting.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/options.def"
#include "ctl/output/text.h"

#define TEXT_MAX   255u
#define BOOL_WORDS "0|1|on|off|yes|no|true|false"

enum { WHEN_start, WHEN_live };

/* Names of options and of environment variables are derived from the name, once. */
#define X(name, kind, dflt, min, max, words, when, help)                                           \
	{#name,                                                                                    \
	 NULL,                                                                                     \
	 NULL,                                                                                     \
	 #kind,                                                                                    \
	 dflt,                                                                                     \
	 words,                                                                                    \
	 help,                                                                                     \
	 MT_SETTING_##kind,                                                                        \
	 min,                                                                                      \
	 max,                                                                                      \
	 WHEN_##when == WHEN_live},
static struct mt_setting settings[] = {MT_OPTIONS(X)};
#undef X
#define SETTINGS_COUNT (sizeof(settings) / sizeof(settings[0]))

static char options[SETTINGS_COUNT][32];
static char environments[SETTINGS_COUNT][32];

static void derive_names(size_t i)
{
	const char *name = settings[i].name;

	snprintf(environments[i], sizeof(environments[i]), "MT_%s", name);
	snprintf(options[i], sizeof(options[i]), "%s", name);
	for (char *next = options[i]; *next; next++)
		if (*next == '_')
			*next = '-';
	for (char *next = environments[i]; *next; next++)
		*next = (char)toupper((unsigned char)*next);
	settings[i].option = options[i];
	settings[i].environment = environments[i];
}

const struct mt_setting *mt_setting_all(size_t *count)
{
	for (size_t i = 0; i < SETTINGS_COUNT && !settings[i].option; i++)
		derive_names(i);
	*count = SETTINGS_COUNT;
	return settings;
}

const struct mt_setting_alias *mt_setting_aliases(size_t *count)
{
	static const struct mt_setting_alias aliases[] = {
#define X(environment, name) {environment, #name},
		MT_ALIASES(X)
#undef X
	};

	*count = sizeof(aliases) / sizeof(aliases[0]);
	return aliases;
}

const struct mt_setting_preset *mt_setting_presets(size_t *count)
{
	static const struct mt_setting_preset presets[] = {
#define X(preset, name, value) {#preset, #name, #value},
		MT_PRESETS(X)
#undef X
	};

	*count = sizeof(presets) / sizeof(presets[0]);
	return presets;
}

const struct mt_setting_role *mt_setting_roles(size_t *count)
{
	static const struct mt_setting_role roles[] = {
#define X(preset, role) {#preset, role},
		MT_PRESET_ROLES(X)
#undef X
	};

	*count = sizeof(roles) / sizeof(roles[0]);
	return roles;
}

const struct mt_setting *mt_setting_find(const char *name)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);

	for (size_t i = 0; i < count; i++)
		if (strcasecmp(name, all[i].name) == 0 || strcasecmp(name, all[i].option) == 0 ||
		    strcasecmp(name, all[i].environment) == 0)
			return &all[i];
	return NULL;
}

const char *mt_setting_nearest(const char *name)
{
	const char *names[SETTINGS_COUNT];
	char plain[64];
	size_t i;

	if (strncasecmp(name, "MT_", 3) == 0)
		name += 3;
	for (i = 0; i + 1 < sizeof(plain) && name[i]; i++)
		plain[i] = name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
	plain[i] = '\0';
	for (i = 0; i < SETTINGS_COUNT; i++)
		names[i] = settings[i].name;
	return mt_text_nearest(plain, names, SETTINGS_COUNT);
}

/* Returns whether the value is one of the words between the bars, in upper or lower case. */
static bool is_word(const char *words, const char *value)
{
	size_t length = strlen(value);

	while (*words) {
		size_t word = strcspn(words, "|");

		if (word == length && word && strncasecmp(words, value, word) == 0)
			return true;
		words += word + (words[word] == '|');
	}
	return false;
}

static bool is_number(const struct mt_setting *setting, const char *value)
{
	uint64_t number;

	return mt_text_parse_u64(value, &number) && number >= setting->min &&
	       number <= setting->max;
}

/* A number with up to three decimals: 1, 0.25. */
static bool is_decimal(const struct mt_setting *setting, const char *value)
{
	size_t whole = strspn(value, "0123456789"), places;
	double number = 0;

	if (whole == 0)
		return false;
	for (size_t i = 0; i < whole; i++)
		number = number * 10 + (value[i] - '0');
	if (value[whole] == '.') {
		places = strspn(value + whole + 1, "0123456789");
		if (places < 1 || places > 3)
			return false;
		if (strspn(value + whole + 1, "0") < places)
			/* enough to compare with the range */
			number += 0.5;
		whole += 1 + places;
	}
	return value[whole] == '\0' && number >= (double)setting->min &&
	       number <= (double)setting->max;
}

static bool is_signal(const struct mt_setting *setting, const char *value)
{
	uint64_t number;

	if (strncasecmp(value, "SIG", 3) == 0)
		value += 3;
	if (is_word("USR1|USR2|none|RTMIN", value))
		return true;
	if (strncasecmp(value, "RTMIN+", 6) == 0)
		return mt_text_parse_u64(value + 6, &number) && number <= 30;
	return is_number(setting, value);
}

static bool is_round(const struct mt_setting *setting, const char *value)
{
	if (strncasecmp(value, "timer:", 6) == 0)
		return is_number(setting, value + 6);
	return is_word("mark|signal|auto", value);
}

/* The unit of a number, which its name ends with; "" for a plain one. */
static const char *unit_of(const struct mt_setting *setting)
{
	static const char *const units[][2] = {
		{"_ms", " ms"}, {"_mb", " MB"}, {"_gb", " GB"}, {"_pct", " %"}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (mt_text_ends_with(setting->name, units[i][0]))
			return units[i][1];
	return "";
}

void mt_setting_allowed(const struct mt_setting *setting, char *out, size_t out_bytes)
{
	switch (setting->kind) {
	case MT_SETTING_bool:
		snprintf(out, out_bytes, BOOL_WORDS);
		break;
	case MT_SETTING_u64:
		snprintf(out, out_bytes, "%" PRIu64 "..%" PRIu64 "%s", setting->min, setting->max,
			 unit_of(setting));
		break;
	case MT_SETTING_count:
		snprintf(out, out_bytes, "%" PRIu64 "..%" PRIu64 "|auto", setting->min,
			 setting->max);
		break;
	case MT_SETTING_decimal:
		snprintf(out, out_bytes, "%" PRIu64 ".0..%" PRIu64 ".0%s", setting->min,
			 setting->max, unit_of(setting));
		break;
	case MT_SETTING_choice:
		snprintf(out, out_bytes, "%s", setting->words);
		break;
	case MT_SETTING_text:
		snprintf(out, out_bytes, "text of at most %u bytes", TEXT_MAX);
		break;
	case MT_SETTING_signal:
		snprintf(out, out_bytes, "USR1|USR2|RTMIN+n|a number|none");
		break;
	case MT_SETTING_round:
		snprintf(out, out_bytes,
			 "timer:SECONDS|mark|signal|auto, SECONDS %" PRIu64 "..%" PRIu64,
			 setting->min, setting->max);
		break;
	}
}

enum mt_err mt_setting_check(const struct mt_setting *setting, const char *value,
			     struct mt_error_reason *why)
{
	bool valid = false;
	char allowed[128];

	switch (setting->kind) {
	case MT_SETTING_bool:
		valid = is_word(BOOL_WORDS, value);
		break;
	case MT_SETTING_u64:
		valid = is_number(setting, value);
		break;
	case MT_SETTING_count:
		valid = is_word("auto", value) || is_number(setting, value);
		break;
	case MT_SETTING_decimal:
		valid = is_decimal(setting, value);
		break;
	case MT_SETTING_choice:
		valid = is_word(setting->words, value);
		break;
	case MT_SETTING_text:
		valid = strlen(value) <= TEXT_MAX;
		break;
	case MT_SETTING_signal:
		valid = is_signal(setting, value);
		break;
	case MT_SETTING_round:
		valid = is_round(setting, value);
		break;
	}
	if (valid)
		return MT_ERR_OK;
	mt_setting_allowed(setting, allowed, sizeof(allowed));
	return mt_error_because(why, MT_ERR_INVALID, "%s=%.60s: not valid; allowed: %s",
				setting->name, value, allowed);
}
