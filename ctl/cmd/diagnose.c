/* ctl/cmd/diagnose.c -- `mtctl diagnose`: samples processes for a while and prints a verdict. */
#include "ctl/diagnose/role.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/target.h"
#include "ctl/process/ancestry.h"

#define SECONDS_PLAIN 60.0
#define SECONDS_MIN   0.1
/* processes that are sampled one by one; the sums of the tree include all */
#define TREE_MAX 64

static const char help[] =
	"Samples a process for a while and names the cause of its memory use, with evidence and\n"
	"advice. At the end it requests a light cleanup (Python's gc, free heap pages): the\n"
	"memory that the cleanup returns is evidence. Ctrl-C ends the sampling early; the\n"
	"verdict then uses the samples so far.\n\n"
	"  --for=DURATION  how long to sample: 60, 60s, 2m (60s)\n"
	"  --tree         PID and all its descendants: each of them, and all together (PSS)\n"
	"  --role=server|client|oom  adds a checklist: for a role in federated learning, or\n"
	"                 for a process that has run out of memory\n"
	"  --no-trim      request no cleanup\n"
	"  --json         one object: the verdict, all findings, trends and figures\n";

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static bool take_role(const struct mt_option *option, const char *text)
{
	int *role = option->target;

	*role = mt_role_parse(text);
	if (*role == MT_ROLE_NONE)
		mt_error_say("no role '%.60s': server, client or oom", text);
	return *role != MT_ROLE_NONE;
}

static void print_verdicts(void)
{
	static const char *const lines[] = {
#define X(name, code, word, line) line,
		MT_VERDICTS(X)
#undef X
	};

	puts("the verdicts, and their exit codes:");
	for (int i = 0; i < MT_VERDICT_COUNT; i++)
		printf("  %3d  %-18s %s\n", mt_diagnose_exit_code((enum mt_verdict)i),
		       mt_diagnose_word((enum mt_verdict)i), lines[i]);
}

struct group {
	size_t count;
	struct mt_facts **facts;
	struct mt_diagnosis **diagnoses;
};

static void add(struct group *group, const struct mt_process *process)
{
	group->facts = mt_error_check_memory(
		realloc(group->facts, (group->count + 1) * sizeof(*group->facts)));
	group->diagnoses = mt_error_check_memory(
		realloc(group->diagnoses, (group->count + 1) * sizeof(*group->diagnoses)));
	group->facts[group->count] = mt_error_check_memory(calloc(1, sizeof(**group->facts)));
	group->diagnoses[group->count] =
		mt_error_check_memory(calloc(1, sizeof(**group->diagnoses)));
	group->facts[group->count++]->process = *process;
}

static void drop(struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		free(group->facts[i]);
		free(group->diagnoses[i]);
	}
	free(group->facts);
	free(group->diagnoses);
}

/* The root, shimmed or not, then its shimmed descendants. */
static void add_tree(struct group *group, const struct mt_process *root)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list);

	add(group, root);
	for (size_t i = 0; i < count && group->count < TREE_MAX; i++)
		if (list[i].shimmed && list[i].pid != root->pid &&
		    mt_ancestry_descends(list, count, list[i].pid, root->pid))
			add(group, &list[i]);
	free(list);
}

/* A signal must not end mtctl before it has switched off the sampler that it has switched on. */
static void set_end_signals(void (*handler)(int))
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = handler};
	struct sigaction before;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(ends[i], &action, NULL);
}

static int diagnose(struct group *group, const struct mt_diagnose_options *options)
{
	struct mt_diagnose_report report = {
		.facts = group->facts, .diagnoses = group->diagnoses, .count = group->count};
	size_t worst = 0;

	set_end_signals(stop);
	mt_diagnose_collect(group->facts, group->count, options, &stopped);
	set_end_signals(SIG_DFL);
	for (size_t i = 0; i < group->count; i++) {
		mt_diagnose_judge(group->facts[i], group->diagnoses[i]);
		if (mt_diagnose_weight(group->diagnoses[i]) >
		    mt_diagnose_weight(group->diagnoses[worst]))
			worst = i;
	}
	report.worst = worst;
	mt_role_check(options->role, group->facts[worst], group->diagnoses[worst], &report.checks);
	(options->json ? mt_diagnose_print_json : mt_diagnose_print_text)(&report);
	return mt_diagnose_exit_code(group->diagnoses[worst]->list[0].verdict);
}

/* A process without the shim publishes no figures, and those of /proc are not enough for a verdict.
 */
static int refuse(const struct mt_process *process)
{
	mt_error_say("process %d (%s) does not carry the shim: RSS %s, and nobody can tell what of "
		     "it is free, live or cache. Restart it under the shim: mtctl run -- %s",
		     (int)process->pid, process->comm, mt_text_bytes(process->rss_bytes).text,
		     process->command);
	return MT_EXIT_NOT_SHIMMED;
}

static int run(const char *text, const struct mt_diagnose_options *options)
{
	struct group group = {0};
	struct mt_process process;
	int code = mt_target_find_any(text, &process);

	if (code != MT_EXIT_OK)
		return code;
	if (options->tree)
		add_tree(&group, &process);
	else
		add(&group, &process);
	code = process.shimmed || group.count > 1 ? diagnose(&group, options) : refuse(&process);
	drop(&group);
	return code;
}

int mt_command_diagnose(int argc, char **argv)
{
	struct mt_diagnose_options wanted = {.seconds = SECONDS_PLAIN};
	bool no_trim = false;
	const struct mt_option options[] = {
		{.name = "for",
		 .target = &wanted.seconds,
		 .take = mt_option_seconds,
		 .min = SECONDS_MIN},
		{.name = "json", .target = &wanted.json},
		{.name = "no-trim", .target = &no_trim},
		{.name = "tree", .target = &wanted.tree},
		{.name = "role", .target = &wanted.role, .take = take_role},
		{0}};
	const struct mt_command_line line = {"diagnose", help, print_verdicts, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	wanted.trim = !no_trim;
	return run(argv[optind], &wanted);
}
