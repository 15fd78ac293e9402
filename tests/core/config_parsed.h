/* config_parsed.h -- an environment parsed, and what was said of it; for test_config*.c. */
#ifndef MT_CONFIG_PARSED_H
#define MT_CONFIG_PARSED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/config.h"
#include "core/core_internal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char said[64][512];
static unsigned said_count;

static inline void hear(const char *line)
{
	if (said_count < COUNT(said))
		snprintf(said[said_count], sizeof(said[0]), "%s", line);
	said_count++;
}

/* Parses an environment of up to three entries. */
static inline struct mt_config parsed(const char *one, const char *two, const char *three)
{
	const char *const list[] = {"PATH=/bin", one, two, three, NULL};
	struct mt_config config;

	memset(&config, 0xa5, sizeof(config));
	said_count = 0;
	mt_config_parse(list, &config, hear);
	return config;
}

static inline const char *formatted(const struct mt_config *config, size_t option)
{
	static char out[MT_TEXT_MAX];

	mt_config_format(config, (enum mt_option)option, out, sizeof(out));
	return out;
}

static inline const char *origin_of(const struct mt_config *config, enum mt_option option)
{
	static char out[64];

	mt_config_format_origin(config, option, out, sizeof(out));
	return out;
}

#endif
