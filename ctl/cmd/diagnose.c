/* ctl/cmd/diagnose.c -- `mtctl diagnose`: samples processes for a while and prints a verdict. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/profile/lines.h"

#define SECONDS_PLAIN 60.0
#define SECONDS_MIN   0.1
/* processes that are sampled one by one; the sums of the tree include all */
#define TREE_MAX 64

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
	struct mt_facts *facts[TREE_MAX];
	struct mt_diagnosis *diagnoses[TREE_MAX];
};

static void add(struct group *group, const struct mt_process *process)
{
	struct mt_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));

	facts->process = *process;
	group->facts[group->count] = facts;
	group->diagnoses[group->count++] =
		mt_error_check_memory(calloc(1, sizeof(struct mt_diagnosis)));
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

/* ---- the lines of a Python program ---- */

/* Whether growth is the verdict, or a guess below "unknown". */
static bool may_grow(const struct mt_diagnosis *diagnosis)
{
	size_t at = diagnosis->list[0].verdict == MT_VERDICT_UNKNOWN && diagnosis->count > 1;
	enum mt_verdict verdict = diagnosis->list[at].verdict;

	return verdict == MT_VERDICT_LEAK || verdict == MT_VERDICT_GROWTH;
}

static void keep_lines(const struct mt_lines *lines, struct mt_facts *facts)
{
	double seconds = (double)lines->growth_ns / 1e9;

	while (facts->lines_count < lines->count && facts->lines_count < MT_DIAGNOSE_LINES &&
	       lines->list[facts->lines_count].is_steady) {
		const struct mt_line *line = &lines->list[facts->lines_count];
		struct mt_diagnose_line *to = &facts->lines[facts->lines_count++];

		snprintf(to->where, sizeof(to->where), "%.140s:%u", line->file, line->line);
		to->grown_bytes = (double)line->growth_bytes;
		to->seconds = seconds;
	}
	snprintf(facts->lines_why, sizeof(facts->lines_why),
		 "none: no line's blocks grew steadily within %.0f s", seconds);
}

static void look_at_lines(const struct mt_diagnose_options *options, struct mt_facts *facts)
{
	struct mt_error_reason why;
	struct mt_lines lines;

	if (mt_lines_collect_beside(&facts->process, options->seconds, &mt_command_ended, &lines,
				    &why) != MT_ERR_OK) {
		snprintf(facts->lines_why, sizeof(facts->lines_why), "not known: %.200s", why.text);
		return;
	}
	keep_lines(&lines, facts);
	mt_lines_free(&lines);
}

static void decide(struct group *group, const struct mt_diagnose_options *options)
{
	for (size_t i = 0; i < group->count; i++)
		mt_diagnose_decide(group->facts[i], group->diagnoses[i]);
	if (options->tree)
		mt_diagnose_decide_tree(group->facts, group->diagnoses, group->count);
}

static int diagnose(struct group *group, const struct mt_diagnose_options *options)
{
	struct mt_diagnose_report report = {
		.facts = group->facts, .diagnoses = group->diagnoses, .count = group->count};
	size_t worst = 0;

	mt_command_set_end_signals(mt_command_end);
	mt_diagnose_collect(group->facts, group->count, options, &mt_command_ended);
	decide(group, options);
	for (size_t i = 0; i < group->count; i++)
		if (mt_diagnose_weight(group->diagnoses[i]) >
		    mt_diagnose_weight(group->diagnoses[worst]))
			worst = i;
	if (options->python && !mt_command_ended && group->facts[worst]->is_python &&
	    !group->facts[worst]->ended && may_grow(group->diagnoses[worst])) {
		look_at_lines(options, group->facts[worst]);
		decide(group, options); /* the lines are facts, too */
	}
	mt_command_set_end_signals(SIG_DFL);
	report.worst = worst;
	(options->json ? mt_diagnose_print_json : mt_diagnose_print_text)(&report);
	return mt_diagnose_exit_code(group->diagnoses[worst]->list[0].verdict);
}

static int run(const char *text, const struct mt_diagnose_options *options)
{
	struct group group = {0};
	struct mt_process process;
	int code = mt_target_find_any(text, options->tree, &process);

	if (code != MT_EXIT_OK)
		return code;
	if (options->tree)
		add_tree(&group, &process);
	else
		add(&group, &process);
	code = process.shimmed || group.count > 1 ? diagnose(&group, options)
						  : (int)mt_process_refuse_bare(&process);
	for (size_t i = 0; i < group.count; i++) {
		mt_diagnosis_free(group.diagnoses[i]);
		free(group.diagnoses[i]);
		free(group.facts[i]);
	}
	return code;
}

int mt_command_diagnose(int argc, char **argv)
{
	struct mt_diagnose_options wanted = {.seconds = SECONDS_PLAIN};
	bool no_trim = false;
	const struct mt_option options[] = {{.name = "for",
					     .target = &wanted.seconds,
					     .take = mt_option_seconds,
					     .min = SECONDS_MIN},
					    {.name = "json", .target = &wanted.json},
					    {.name = "no-trim", .target = &no_trim},
					    {.name = "gc", .target = &wanted.gc},
					    {.name = "python", .target = &wanted.python},
					    {.name = "tree", .target = &wanted.tree},
					    {0}};
	const struct mt_command_line line = {"diagnose", print_verdicts, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	wanted.trim = !no_trim;
	return run(argv[optind], &wanted);
}
