/* core/config_error.h -- formats the warning about a setting that core/config.c rejects: one line
 * of printable ASCII, without a newline. Any thread may call. Takes no lock, owns no state, never
 * allocates. */
#ifndef MT_CORE_CONFIG_ERROR_H
#define MT_CORE_CONFIG_ERROR_H

#include <stddef.h>

#include "core/option.h"

#define MT_CONFIG_ERROR_MAX 384 /* bytes of a line, with its NUL */

struct mt_rejected_value {
	const char *label; /* the variable: MT_NAME or an alias */
	const char *value;
	enum mt_option option;
};

/* Reports "NAME=VALUE: not a whole number from 0 to 9; 3 is taken". standing: the value that stays,
 * as a user would write it. */
void mt_config_error_value(const struct mt_rejected_value *refusal, const char *standing,
			   mt_config_report complain);

/* Reports "MT_X: no such setting", with the nearest setting where there is one. name: `length`
 * bytes that begin with MT_. */
void mt_config_error_name(const char *name, size_t length, mt_config_report complain);

#endif
