/* ctl/ui/plot/plotting.c -- see plotting.h. */
#include "ctl/ui/plot/plotting.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"

bool mt_plotting_parse_size(const char *text, double *out_width, double *out_height)
{
	char *by, *end;
	long width = strtol(text, &by, 10), height = *by == 'x' ? strtol(by + 1, &end, 10) : 0;

	if (*by != 'x' || end == by + 1 || *end || width < 300 || width > 8000 || height < 200 ||
	    height > 8000) {
		mt_error_say("--size=%.40s: WIDTHxHEIGHT, from 300x200 to 8000x8000", text);
		return false;
	}
	*out_width = (double)width;
	*out_height = (double)height;
	return true;
}

bool mt_plotting_parse_duration(const char *text, double *out)
{
	static const char units[] = "smhd";
	static const double seconds[] = {1, 60, 3600, 86400};
	char *end;
	double number = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : units;

	if (end == text || !unit || (*end && end[1]) || !(number > 0 && number <= 1e7)) {
		mt_error_say("'%.40s' is not a duration: 90, 90s, 5m, 2h or 1d", text);
		return false;
	}
	*out = number * seconds[unit - units];
	return true;
}
