#include "ctl/output/units.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Reads the number at the start of the text. *end is the text after it, without blanks. */
static bool parse_number(const char *text, double *out, const char **end)
{
	char *after;
	double value;

	if (!isdigit((unsigned char)*text) && !(text[0] == '.' && isdigit((unsigned char)text[1])))
		return false;
	value = strtod(text, &after);
	if (!isfinite(value) || memchr(text, 'x', (size_t)(after - text)) ||
	    memchr(text, 'X', (size_t)(after - text)))
		return false;
	*out = value;
	*end = after + strspn(after, " ");
	return true;
}

bool mt_units_number(const char *text, double *out)
{
	const char *end;
	double value;

	if (!parse_number(text, &value, &end) || *end)
		return false;
	*out = value;
	return true;
}

bool mt_units_count(const char *text, double *out)
{
	static const struct {
		const char *unit;
		double times;
	} units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
	const char *end;
	double value;

	if (!parse_number(text, &value, &end))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcasecmp(end, units[i].unit) == 0) {
			*out = value * units[i].times;
			return isfinite(*out);
		}
	return false;
}

bool mt_units_bytes(const char *text, double *out)
{
	static const char letters[] = "KMGT";
	const char *end, *letter;
	double value;

	if (!parse_number(text, &value, &end) || !*end)
		return false;
	letter = strchr(letters, toupper((unsigned char)*end));
	if (!letter || (end[1] && strcasecmp(end + 1, "b") != 0 && strcasecmp(end + 1, "ib") != 0))
		return false;
	*out = ldexp(value, 10 * (int)(letter - letters + 1));
	return isfinite(*out);
}

bool mt_units_duration(const char *text, double *out_s)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = {{"", 1},     {"ms", 1e-3}, {"s", 1},    {"m", 60},
		     {"min", 60}, {"h", 3600},  {"d", 86400}};
	const char *end;
	double value;

	if (!parse_number(text, &value, &end))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0) {
			*out_s = value * units[i].seconds;
			return isfinite(*out_s);
		}
	return false;
}

bool mt_units_percent(const char *text, double *out)
{
	const char *end;
	double value;

	if (!parse_number(text, &value, &end) || strcmp(end, *end ? "%" : "") != 0 || value > 100)
		return false;
	*out = value;
	return true;
}
