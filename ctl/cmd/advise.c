/* ctl/cmd/advise.c -- `mtctl advise`: reads the facts of a process, applies the rules, and prints
 * the advice. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/output/json.h"

/* seconds awake below which the advice is uncertain */
#define SHORT_S 30.0

/* all_count: of the findings, also those without a setting for the next start. */
static void print_text(const struct mt_facts *facts, const struct mt_diagnosis *found,
		       size_t all_count)
{
	const struct mt_stats_snapshot *now = &facts->last.head.snapshot;
	struct mt_memory_parts parts = mt_memory_parts_of_snapshot(now, now->rss_bytes);
	bool is_known = mt_memory_parts_are_known(now);
	double awake_s = mt_diagnose_awake_s(facts);

	printf("process %d (%s): RSS %s (at most %s), live %s, reusable %s; %s and %s in %.0f s\n",
	       (int)facts->process.pid, facts->process.comm, mt_text_bytes(now->rss_bytes).text,
	       mt_text_bytes(now->rss_peak_bytes).text,
	       is_known ? mt_text_bytes(parts.bytes[MT_PART_LIVE]).text : "not known",
	       is_known ? mt_text_bytes(parts.bytes[MT_PART_REUSABLE]).text : "not known",
	       mt_text_counted(now->light_count + now->heavy_count, "cleanup", "cleanups").text,
	       mt_text_counted(now->purge_count, "purge", "purges").text, awake_s);
	if (!found->count)
		puts("\nnothing to change");
	for (size_t i = 0; i < found->count; i++) {
		printf("\n%s: %s\n", found->list[i].id, found->list[i].text);
		if (*found->list[i].command)
			printf("  now          %s\n", found->list[i].command);
		printf("  at a start   %s\n", found->list[i].environment);
	}
	if (all_count > found->count)
		printf("\n%s more: mtctl doctor %d\n",
		       mt_text_counted(all_count - found->count, "finding", "findings").text,
		       (int)facts->process.pid);
	if (awake_s < SHORT_S)
		printf("\nit has been awake for %.0f s: ask again when it has done more of its "
		       "work\n",
		       awake_s);
}

static void print_json(const struct mt_facts *facts, const struct mt_diagnosis *found)
{
	json_t *root = mt_process_json(&facts->process), *advice = json_array();

	mt_json_set(root, "awake_s", json_real(mt_diagnose_awake_s(facts)));
	for (size_t i = 0; i < found->count; i++) {
		json_t *object = mt_json_append_object(advice);

		mt_json_set_text(object, "topic", found->list[i].id);
		mt_json_set_text(object, "reason", found->list[i].text);
		mt_json_set_text(object, "environment", found->list[i].environment);
		mt_json_set_text_or_null(object, "command", found->list[i].command);
	}
	mt_json_set(root, "advice", advice);
	mt_json_print(root, true);
}

static int advise(const char *word, bool json)
{
	struct mt_facts *facts;
	struct mt_diagnosis found = {.count = 0};
	struct mt_error_reason why;
	struct mt_process process;
	int code = mt_target_find(word, &process);
	size_t all_count;
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	error = mt_diagnose_look(&process, false, facts, &why);
	if (error) {
		code = mt_target_fail(&process, error, &why);
	} else {
		mt_findings_of_one_look(facts, &found);
		all_count = found.count;
		mt_findings_with_setting(&found);
		json ? print_json(facts, &found) : print_text(facts, &found, all_count);
	}
	mt_diagnosis_free(&found);
	free(facts);
	return code;
}

int mt_command_advise(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"advise", NULL, options, 1, 1};
	int code;

	return mt_command_line_read(&line, argc, argv, &code) ? advise(argv[optind], json) : code;
}
