/* test_openmetrics.c -- which processes and devices are told of, over process lists that no machine
 * has. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/process_list.h"
#include "ctl/metrics/openmetrics.h"

static struct mt_process_list process_list_of(size_t count)
{
	struct mt_process_list processes = {.list = calloc(count, sizeof(*processes.list)),
					    .count = count};

	for (size_t i = 0; i < count; i++) {
		struct mt_process_list_entry *entry = &processes.list[i];

		entry->process.pid = (pid_t)(1000 + i);
		entry->state = MT_PROCESS_AWAKE;
		entry->own.rss_bytes = 100 + (i * 7919) % count; /* each another one */
		snprintf(entry->head.comm, sizeof(entry->head.comm), "comm");
	}
	return processes;
}

static size_t count_of(const char *text, const char *words)
{
	size_t count = 0;

	for (const char *at = strstr(text, words); at; at = strstr(at + 1, words))
		count++;
	return count;
}

Test(openmetrics, without_processes_there_is_still_a_page)
{
	struct mt_process_list processes = {0};
	size_t bytes;
	char *text = mt_openmetrics_render(&processes, MT_EXPOSITION_OPENMETRICS, &bytes);

	cr_expect_eq(bytes, strlen(text));
	cr_expect_not_null(strstr(text, "\nmtshim_build_info{version=\""));
	cr_expect_not_null(strstr(text, "\nmtshim_processes{state=\"awake\"} 0\n"));
	cr_expect_str_eq(text + bytes - 7, "\n# EOF\n");
	cr_expect_eq(count_of(text, "pid="), 0);
	free(text);
}

Test(openmetrics, of_too_many_processes_the_largest_are_written_by_pid)
{
	struct mt_process_list processes =
		process_list_of(601); /* 601 is prime: every RSS is there once */
	char line[96];
	size_t bytes;
	char *text = mt_openmetrics_render(&processes, MT_EXPOSITION_OPENMETRICS, &bytes),
	     *last = NULL;

	cr_expect_eq(count_of(text, "\nmtshim_up{"), 500);
	cr_expect_not_null(strstr(text, "\nmtshim_processes_left_out 101\n"));
	cr_expect_not_null(strstr(text, "\nmtshim_processes{state=\"awake\"} 601\n"));
	for (size_t i = 0; i < processes.count; i++) {
		char *place;

		snprintf(line, sizeof(line), "\nmtshim_rss_bytes{pid=\"%zu\",comm=\"comm\"} ",
			 1000 + i);
		place = strstr(text, line);
		cr_expect_eq(place != NULL, processes.list[i].own.rss_bytes >= 100 + 101, "%zu", i);
		cr_expect(!place || place > last);
		last = place ? place : last;
	}
	free(text);
	mt_process_list_free(&processes);
}

/* Programs tell their progress by their name. */
Test(openmetrics, a_process_that_renames_itself_stays_one_series)
{
	struct mt_process_list processes = process_list_of(1);
	size_t bytes;
	char *text;

	snprintf(processes.list[0].process.comm, sizeof(processes.list[0].process.comm),
		 "batch 17");
	text = mt_openmetrics_render(&processes, MT_EXPOSITION_OPENMETRICS, &bytes);
	cr_expect_not_null(strstr(text, "\nmtshim_up{pid=\"1000\",comm=\"comm\"} 1\n"));
	cr_expect_eq(count_of(text, "batch"), 0);
	free(text);
	mt_process_list_free(&processes);
}

Test(openmetrics, a_repeated_device_is_written_once)
{
	struct mt_process_list processes = process_list_of(1);
	size_t bytes;
	char *text;

	processes.list[0].uses_cuda = true;
	processes.list[0].head.devices_count = 3;
	processes.list[0].devices = calloc(3, sizeof(*processes.list[0].devices));
	processes.list[0].devices[1].ordinal = 4;
	text = mt_openmetrics_render(&processes, MT_EXPOSITION_OPENMETRICS, &bytes);
	cr_expect_eq(count_of(text, "\nmtshim_device_info{"), 2);
	cr_expect_eq(count_of(text, "\nmtshim_device_allocated_bytes{"), 2);
	free(text);
	mt_process_list_free(&processes);
}

Test(openmetrics, no_two_families_have_one_name)
{
	size_t count;
	struct mt_metric *list = mt_openmetrics_families(&count);

	cr_assert_gt(count, 100);
	for (size_t i = 0; i < count; i++) {
		cr_expect_eq(strncmp(list[i].name, "mtshim_", 7), 0);
		cr_expect_not_null(list[i].labels);
		cr_expect_gt(strlen(list[i].help), 5, "%s", list[i].name);
		for (size_t j = 0; j < i; j++)
			cr_expect_str_neq(list[i].name, list[j].name);
	}
	free(list);
}
