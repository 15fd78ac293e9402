/* core/config_option.h -- the table of settings as data, and the parser and formatter of one value.
 * config.c owns the table; config_value.c knows the kinds. Only config*.c include it, and
 * mtctl for its parser; other files read struct mt_config. Any thread may call. Takes no lock,
 * never allocates, never reads the locale. */
#ifndef MT_CORE_CONFIG_OPTION_H
#define MT_CORE_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"
#include "core/option.h"
#include "sys/format.h"

enum mt_kind {
	MT_KIND_bool,
	MT_KIND_u64,
	MT_KIND_count,
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

/* Returns the row of an option below MT_OPTION_COUNT. */
const struct mt_option_row *mt_config_row(enum mt_option option);

/* Parses a value. Returns MT_ERR_INVALID for a malformed value, and MT_ERR_RANGE for one outside
 * min..max or a text that is too long. *out: written only on success, and not for a text. */
enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out);

/* Formats a value as a user would write it, cut to out_bytes with a NUL. Not for a text. */
void mt_config_value_format(const struct mt_option_row *row, uint64_t value, char *out,
			    size_t out_bytes);

/* Describes the valid values in one line, such as "0..100 %" or "auto|on|off". */
void mt_config_value_allowed(const struct mt_option_row *row, char *out, size_t out_bytes);

#endif
