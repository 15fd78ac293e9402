/* ctl/cmd/diagnose.c -- `mtctl diagnose`: a look of some time, and a verdict. */
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
#define SECONDS_MAX   86400.0
/* processes looked at one by one; the tree's sums hold them all */
#define TREE_MAX 64

static const char help[] =
	"Looks at a process for a while, and says what is the matter with its memory, from what "
	"that is known, and what to do.\n"
	"At the end it asks for a light cleanup (Python's gc, free heap pages): what that returns "
	"is evidence.\n"
	"Ctrl-C ends the look early; the verdict is then given on what was seen.\n\n"
	"  --for=TIME     how long to look: 60, 60s, 2m (60s)\n"
	"  --tree         PID and all that descend from it: each for itself, and all together "
	"(PSS)\n"
	"  --role=server|client|oom  a checklist as well: for those of federated learning, or when "
	"memory has run out\n"
	"  --no-trim      ask for no cleanup\n"
	"  --json         the verdict, all findings, trends and figures as one object\n\n"
	"The exit code is the verdict's (3: no such process, or not shimmed; 2: a wrong use):\n\n";

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

/* 60, 60s, 2m, 1h; a fraction if one likes. */
static bool take_time(const struct mt_option *option, const char *text)
{
	char *end;
	double value = strtod(text, &end), unit = *end == 'm' ? 60 : *end == 'h' ? 3600 : 1;

	if (end == text || (*end && (strchr("smh", *end) == NULL || end[1])) ||
	    !(value * unit > 0 && value * unit <= SECONDS_MAX)) {
		mt_error_say("'%.60s' is no time to look: 60, 60s, 2m, up to 24h", text);
		return false;
	}
	*(double *)option->target = value * unit;
	return true;
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

	for (int i = 0; i < MT_VERDICT_COUNT; i++)
		printf("  %3d  %-18s %s\n", mt_diagnose_exit_code((enum mt_verdict)i),
		       mt_diagnose_word((enum mt_verdict)i), lines[i]);
}

struct look {
	size_t count;
	struct mt_diagnose_facts **facts;
	struct mt_diagnosis **diagnoses;
};

static void add(struct look *look, const struct mt_process *process)
{
	look->facts = mt_error_check_memory(
		realloc(look->facts, (look->count + 1) * sizeof(*look->facts)));
	look->diagnoses = mt_error_check_memory(
		realloc(look->diagnoses, (look->count + 1) * sizeof(*look->diagnoses)));
	look->facts[look->count] = mt_error_check_memory(calloc(1, sizeof(**look->facts)));
	look->diagnoses[look->count] = mt_error_check_memory(calloc(1, sizeof(**look->diagnoses)));
	look->facts[look->count++]->process = *process;
}

static void drop(struct look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		free(look->facts[i]);
		free(look->diagnoses[i]);
	}
	free(look->facts);
	free(look->diagnoses);
}

/* The root first, whatever it is; then those below it that carry the shim. */
static void add_tree(struct look *look, const struct mt_process *root)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list);

	add(look, root);
	for (size_t i = 0; i < count && look->count < TREE_MAX; i++)
		if (list[i].shimmed && list[i].pid != root->pid &&
		    mt_ancestry_descends(list, count, list[i].pid, root->pid))
			add(look, &list[i]);
	free(list);
}

/* However it is ended early, the sampler that it has switched on is to be switched off again. */
static void on_ends(void (*handler)(int))
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = handler};
	struct sigaction before;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(ends[i], &action, NULL);
}

static int diagnose(struct look *look, const struct mt_diagnose_options *options)
{
	struct mt_diagnose_report told = {
		.facts = look->facts, .diagnoses = look->diagnoses, .count = look->count};
	size_t worst = 0;

	on_ends(stop);
	mt_diagnose_collect(look->facts, look->count, options, &stopped);
	on_ends(SIG_DFL);
	for (size_t i = 0; i < look->count; i++) {
		mt_diagnose_judge(look->facts[i], look->diagnoses[i]);
		if (mt_diagnose_weight(look->diagnoses[i]) >
		    mt_diagnose_weight(look->diagnoses[worst]))
			worst = i;
	}
	told.worst = worst;
	mt_role_check(options->role, look->facts[worst], look->diagnoses[worst], &told.checks);
	(options->json ? mt_diagnose_print_json : mt_diagnose_print_text)(&told);
	return mt_diagnose_exit_code(look->diagnoses[worst]->list[0].verdict);
}

/* A process that does not carry the shim says nothing of itself: what its files in /proc tell is
 * not enough for a verdict. */
static int refuse(pid_t pid, const struct mt_process *process)
{
	mt_error_say("process %d (%s) does not carry the shim: RSS %s, and nobody can tell what of "
		     "it is free, live or cache. "
		     "Restart it under the shim: mtctl run -- %s",
		     (int)pid, process->comm, mt_text_bytes(process->rss_bytes).text,
		     process->command);
	return MT_EXIT_NOT_SHIMMED;
}

static int run(const char *text, const struct mt_diagnose_options *options)
{
	struct look look = {0};
	struct mt_process process;
	struct mt_why why;
	pid_t pid;
	int code;

	if (mt_target_parse_pid(text, &pid) != MT_EXIT_OK)
		return MT_EXIT_USAGE;
	if (mt_process_find(pid, &process, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_NOT_SHIMMED, &why);
	if (options->tree)
		add_tree(&look, &process);
	else
		add(&look, &process);
	code = process.shimmed || look.count > 1 ? diagnose(&look, options) : refuse(pid, &process);
	drop(&look);
	return code;
}

int mt_command_diagnose(int argc, char **argv)
{
	struct mt_diagnose_options wanted = {.seconds = SECONDS_PLAIN};
	bool no_trim = false;
	const struct mt_option options[] = {
		{.name = "for", .target = &wanted.seconds, .take = take_time},
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
