/* core/config_option.h -- the table of settings as data, and how one value is read and written.
 * Owner: config.c has the table; config_value.c knows the kinds. For config*.c and complaint.c
 * alone: everybody else reads struct mt_config. Nothing here allocates, takes a lock, or looks at
 * the locale. */
#ifndef MT_CORE_CONFIG_OPTION_H
#define MT_CORE_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"
#include "core/option.h"

enum mt_kind {
	MT_KIND_bool,
	MT_KIND_u64,
	MT_KIND_count,
	MT_KIND_decimal,
	MT_KIND_choice,
	MT_KIND_text,
	MT_KIND_signal,
	MT_KIND_round
};

struct mt_option_row {
	const char *name;
	const char *dflt;  /* as a user would write it */
	const char *words; /* of a choice, separated by | */
	uint64_t min;
	uint64_t max;
	uint16_t offset; /* of the field in struct mt_config */
	uint8_t kind;    /* enum mt_kind */
	bool is_live;
};

/* The row of an option; option must be below MT_OPTION_COUNT. */
const struct mt_option_row *mt_config_row(enum mt_option option);

/* Reads a value. INVALID: not of the kind's form; RANGE: of the form, but outside of what is
 * allowed (a text: too long). *out is written on success only, and not for a text, which is its own
 * value. */
enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out);

/* The inverse, for every kind but text; always ended by NUL. */
void mt_config_value_format(const struct mt_option_row *row, uint64_t value, char *out,
			    size_t out_bytes);

/* ASCII only: tolower(3) asks the locale. */
static inline char mt_ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char mt_ascii_upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

#endif
