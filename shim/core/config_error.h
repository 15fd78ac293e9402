/* core/config_error.h -- what is said about a setting that cannot be taken: one line, safe to
 * print, no newline. For config.c. Writes into its own stack frame, allocates nothing, keeps
 * nothing. */
#ifndef MT_CORE_CONFIG_ERROR_H
#define MT_CORE_CONFIG_ERROR_H

#include <stddef.h>

#include "core/option.h"

#define MT_CONFIG_ERROR_MAX 384 /* bytes of a line, with its NUL */

struct mt_rejected_value {
	const char *label; /* the variable that said it, ours or an alias */
	const char *value;
	enum mt_option option;
};

/* "NAME=VALUE: not a whole number from 0 to 9; 3 is taken", where 3 is `standing`: the value that
 * stays, as a user would write it. */
void mt_config_error_value(const struct mt_rejected_value *refusal, const char *standing,
			   mt_config_report complain);

/* "MT_X: no such setting", with the nearest one where there is one. name is length bytes long and
 * begins with MT_. */
void mt_config_error_name(const char *name, size_t length, mt_config_report complain);

#endif
