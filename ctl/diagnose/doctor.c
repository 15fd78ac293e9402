/* ctl/diagnose/doctor.c -- prints findings and counts the warnings. See doctor.h. */
#include "ctl/diagnose/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/table.h"

static size_t warnings_count;

void mt_doctor_say(enum mt_finding finding, const char *advice, const char *format, ...)
{
	static const char *const words[] = {"ok", "note", "warn"};
	static const enum mt_colour colours[] = {MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN};
	va_list arguments;

	warnings_count += finding == MT_FINDING_WARN;
	printf("%s%-4s%s  ", mt_table_colour(colours[finding]), words[finding],
	       mt_table_colour_end());
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	if (advice)
		printf("      -> %s\n", advice);
}

void mt_doctor_fact(const char *label, const char *text)
{
	if (*text)
		printf("      %-11s %s\n", label, text);
}

size_t mt_doctor_warnings(void)
{
	return warnings_count;
}

bool mt_doctor_variable(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	const char *value = pid ? NULL : getenv(name);

	if (pid)
		return mt_process_environ(pid, name, out, out_bytes);
	if (!value || strlen(value) >= out_bytes)
		return false;
	strcpy(out, value);
	return true;
}
