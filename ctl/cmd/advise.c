/* ctl/cmd/advise.c -- `mtctl advise`: reads the facts of a process, applies the rules, and prints
 * the advice. */
#include "ctl/diagnose/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/control_file.h"
#include "ctl/process/target.h"

/* seconds awake below which the advice is uncertain */
#define SHORT_S 30.0

static const char help[] =
	"Recommends settings for a process, each with its reason in figures of this process:\n"
	"its stats, the last 256 cleanups, 15 minutes of samples, its settings, mappings and\n"
	"environment. Often there is nothing to change. `mtctl diagnose` finds the cause of a\n"
	"high memory use.\n\n"
	"  --json  one object\n";

static void print_text(const struct mt_advise_facts *facts, const struct mt_advice *list,
		       size_t count)
{
	const struct mt_stats_snapshot *now = &facts->base.last.head.snapshot;

	printf("process %d (%s): RSS %s (at most %s), live %s, reusable %s; %s and %s in %.0f s\n",
	       (int)facts->base.process.pid, facts->base.process.comm,
	       mt_text_bytes(now->rss_bytes).text, mt_text_bytes(now->rss_peak_bytes).text,
	       mt_text_bytes(now->heap_live_bytes).text, mt_text_bytes(now->heap_dirty_bytes).text,
	       mt_text_counted(now->light_count + now->heavy_count, "cleanup", "cleanups").text,
	       mt_text_counted(now->purge_count, "purge", "purges").text, mt_advise_awake_s(facts));
	if (!count)
		puts("\nnothing to change");
	for (size_t i = 0; i < count; i++) {
		printf("\n%s: %s\n", list[i].topic, list[i].reason);
		if (*list[i].command)
			printf("  now          %s\n", list[i].command);
		printf("  at a start   %s\n", list[i].environment);
	}
	if (mt_advise_awake_s(facts) < SHORT_S)
		printf("\nit has been awake for %.0f s: ask again when it has done more of its "
		       "work\n",
		       mt_advise_awake_s(facts));
}

static void print_json(const struct mt_advise_facts *facts, const struct mt_advice *list,
		       size_t count)
{
	json_t *root = json_object(), *advice = json_array();

	mt_json_set_u64(root, "pid", (uint64_t)facts->base.process.pid);
	mt_json_set_text(root, "comm", facts->base.process.comm);
	mt_json_set(root, "awake_s", json_real(mt_advise_awake_s(facts)));
	for (size_t i = 0; i < count; i++) {
		json_t *object = json_object();

		mt_json_set_text(object, "topic", list[i].topic);
		mt_json_set_text(object, "reason", list[i].reason);
		mt_json_set_text(object, "environment", list[i].environment);
		mt_json_set_text_or_null(object, "command", list[i].command);
		mt_json_append(advice, object);
	}
	mt_json_set(root, "advice", advice);
	mt_json_print(root, true);
}

static int advise(const char *pid, bool json)
{
	struct mt_advise_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_target *target = mt_error_check_memory(calloc(1, sizeof(*target)));
	struct mt_advice list[MT_ADVICE_MAX];
	int code = mt_target_find(pid, &target->process);
	size_t count;

	if (code == MT_EXIT_OK) {
		mt_control_file_refresh(&target->process);
		code = mt_target_load(target);
	}
	if (code == MT_EXIT_OK) {
		mt_advise_read(target, facts);
		count = mt_advise_judge(facts, list);
		(json ? print_json : print_text)(facts, list, count);
	}
	free(target);
	free(facts);
	return code;
}

int mt_command_advise(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"advise", help, NULL, options, 1, 1};
	int code;

	return mt_command_line_read(&line, argc, argv, &code) ? advise(argv[optind], json) : code;
}
