/* ctl/cmd/stat.c -- `mtctl stat`: the memory and cleanups of a process. */
#include "ctl/cmd/stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/channel/stats_json.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/clock.h"

#define EVERY_MS          2000u
#define EVERY_MIN_SECONDS 0.01

static const char help[] =
	"Shows what resident memory (RSS) is made of, its peak and limit, the last cleanup, and\n"
	"what is odd. The four parts always add up to RSS. live: in use by the program.\n"
	"reusable: free in its allocator and still resident, so that a cleanup returns it.\n"
	"files: pages of programs, libraries and mapped files, and shared memory. other: stacks,\n"
	"other mappings, free blocks between live ones. Requests new figures first. A process\n"
	"that does not reply within a second is shown as it has last published.\n\n"
	"  --all              every figure with its meaning, pressure, GPUs, five cleanups\n"
	"  --records          all cleanups that are kept, the last 256\n"
	"  --samples          the last 15 minutes\n"
	"  --json             one object: every figure by its name, records, samples, settings\n"
	"  --watch[=DURATION]  repeats (2s) until the process ends; with --json, one line each\n"
	"  --oom              only the last out-of-memory errors of GPUs and the times that\n"
	"                     MT_RSS_LIMIT_MB was reached, in full; exit code 0 also for none\n"
	"  --cached           does not wake the process\n";

static void print_json(const struct mt_target *target, const struct mt_stat_view *view)
{
	json_t *root = mt_stats_json(target);

	if (!view->cached) /* as `serve` has it: what the process has published, and no more */
		mt_json_set(root, "odd", mt_findings_json(view->found, 0));
	mt_json_print(root, !view->watch);
}

static void print(const struct mt_target *target, const struct mt_stat_view *view)
{
	if (!view->json && view->watch && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	if (view->oom)
		view->json ? mt_stats_json_print_oom(target, !view->watch)
			   : mt_stat_print_oom_text(target);
	else if (view->json)
		print_json(target, view);
	else
		mt_stat_print_text(target, view);
	fflush(stdout);
}

/* Reads the process once, and prints it. */
static int show_once(struct mt_target *target, struct mt_stat_view *view)
{
	struct mt_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_diagnosis found = {.count = 0};
	struct mt_error_reason why;
	enum mt_err error = mt_diagnose_look(&target->process, view->cached, facts, &why);
	int code = error ? mt_target_fail(&target->process, error, &why) : MT_EXIT_OK;

	if (!error) {
		target->file = facts->first;
		if (!view->oom)
			mt_findings_judge_now(facts, &found);
		view->facts = facts;
		view->found = &found;
		print(target, view);
	}
	mt_diagnosis_free(&found);
	free(facts);
	return code;
}

static int show(struct mt_target *target, const char *pid, struct mt_stat_view *view)
{
	int code = mt_target_find(pid, &target->process);

	if (code != MT_EXIT_OK)
		return code;
	for (;;) {
		code = show_once(target, view);
		if (code != MT_EXIT_OK)
			return code;
		if (!view->watch || ferror(stdout))
			return MT_EXIT_OK;
		mt_clock_sleep_ms((unsigned)view->every_ms);
		if (!mt_process_is_alive(&target->process))
			return MT_EXIT_OK;
	}
}

static bool take_watch(const struct mt_option *option, const char *text)
{
	struct mt_stat_view *view = option->target;

	struct mt_option every = *option;

	view->watch = true;
	every.target = &view->every_ms;
	every.min = EVERY_MIN_SECONDS;
	return !text || mt_option_ms(&every, text);
}

int mt_command_stat(int argc, char **argv)
{
	struct mt_stat_view view = {.every_ms = EVERY_MS};
	const struct mt_option options[] = {
		{.name = "json", .target = &view.json},
		{.name = "watch", .target = &view, .take = take_watch, .value_optional = true},
		{.name = "all", .target = &view.all},
		{.name = "records", .target = &view.records},
		{.name = "samples", .target = &view.samples},
		{.name = "cached", .target = &view.cached},
		{.name = "oom", .target = &view.oom},
		{0}};
	const struct mt_command_line line = {"stat", help, NULL, options, 1, 1};
	struct mt_target *target;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	target = mt_error_check_memory(malloc(sizeof(*target)));
	code = show(target, argv[optind], &view);
	free(target);
	return code;
}
