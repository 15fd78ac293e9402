#include "ctl/figures/setting.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/config.h"
#include "ctl/output/text.h"

static_assert((int)MT_SETTING_round == (int)MT_KIND_round, "the same kinds");

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

static struct mt_option_row row_of(const struct mt_setting *setting)
{
	return (struct mt_option_row){.name = setting->name,
				      .words = setting->words,
				      .min = setting->min,
				      .max = setting->max,
				      .kind = (uint8_t)setting->kind};
}

void mt_setting_allowed(const struct mt_setting *setting, char *out, size_t out_bytes)
{
	const struct mt_option_row row = row_of(setting);

	mt_config_value_allowed(&row, out, out_bytes);
}

enum mt_err mt_setting_check(const struct mt_setting *setting, const char *value,
			     struct mt_error_reason *why)
{
	const struct mt_option_row row = row_of(setting);
	uint64_t parsed;
	char allowed[128];

	if (mt_config_value_parse(&row, value, &parsed) == MT_ERR_OK)
		return MT_ERR_OK;
	mt_setting_allowed(setting, allowed, sizeof(allowed));
	return mt_error_because(why, MT_ERR_INVALID, "%s=%.60s: not valid; allowed: %s",
				setting->name, value, allowed);
}
