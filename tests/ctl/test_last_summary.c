/* tests/ctl/test_last_summary.c -- ctl/diagnose/last_summary: what is told of a killed process. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

/* What is told of a cgroup with so many processes, of which one was read. */
static char *told_of(uint64_t processes)
{
	struct mt_last_look *look = calloc(1, sizeof(*look));
	struct mt_last_summary story = {.look = look};
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	look->file.head.processes_total = processes;
	look->file.head.processes_count = 1;
	mt_last_summary_write_growth(&story, to);
	fclose(to);
	free(look);
	return text;
}

Test(last_summary, says_or_more_where_not_all_processes_were_counted)
{
	char *few = told_of(MT_LAST_PROCESSES_MAX - 1), *many = told_of(MT_LAST_PROCESSES_MAX);

	cr_expect(strstr(few, "of 255 processes\n"), "%s", few);
	cr_expect(strstr(many, "of 256 processes or more\n"), "%s", many);
	free(few);
	free(many);
}
