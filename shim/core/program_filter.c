/* core/program_filter.c -- MT_ENABLE, MT_ONLY and MT_EXCLUDE: in which programs the shim works.
 * Contract: core/config.h. */
#include "core/config.h"

#include <string.h>

/* Matches text with a pattern of `length` bytes that may contain * and ?. fnmatch(3) may allocate
 * and reads the locale. Backtracks to the last star only, which suffices for these two. */
static bool glob_matches(const char *pattern, size_t length, const char *text)
{
	size_t at = 0;
	size_t after_star = 0; /* 0: no star yet */
	const char *star_text = text;

	while (*text != '\0') {
		if (at < length && pattern[at] == '*') {
			after_star = ++at;
			star_text = text;
		} else if (at < length && (pattern[at] == '?' || pattern[at] == *text)) {
			at++;
			text++;
		} else if (after_star != 0) {
			at = after_star;
			text = ++star_text;
		} else {
			return false;
		}
	}
	while (at < length && pattern[at] == '*')
		at++;
	return at == length;
}

/* Returns whether a glob of the list matches. *out_count: number of globs. Ignores blanks around a
 * glob. */
static bool list_matches(const char *list, const char *program, unsigned *out_count)
{
	bool matches = false;
	unsigned count = 0;

	while (*list != '\0') {
		size_t length = strcspn(list, ",");
		const char *next = list + length;

		while (length > 0 && *list == ' ') {
			list++;
			length--;
		}
		while (length > 0 && list[length - 1] == ' ')
			length--;
		if (length > 0) {
			count++;
			matches = matches || glob_matches(list, length, program);
		}
		list = next + (*next == ',');
	}
	*out_count = count;
	return matches;
}

bool mt_program_filter_admits(const struct mt_config *config, const char *program)
{
	const char *slash;
	unsigned count;

	if (config->enable == 0)
		return false;
	if (program == NULL)
		program = "";
	slash = strrchr(program, '/');
	if (slash != NULL)
		program = slash + 1;
	if (list_matches(config->exclude, program, &count))
		return false;
	return list_matches(config->only, program, &count) || count == 0;
}
