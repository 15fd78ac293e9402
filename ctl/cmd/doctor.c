/* ctl/cmd/doctor.c -- `mtctl doctor`: checks the machine or a process for problems. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"

struct page {
	bool json;
	json_t *checks, *facts;
	size_t warnings_count;
};

static void show(struct page *page, const char *section, const struct mt_finding *finding)
{
	bool is_fact = finding->state == MT_FACT;
	json_t *object;

	page->warnings_count += finding->state == MT_WARN;
	if (!page->json) {
		mt_finding_print_check(finding);
		return;
	}
	object = mt_finding_json(finding);
	mt_json_set_text(object, "section", section);
	if (is_fact)
		mt_json_set_text(object, "name", finding->id);
	mt_json_append(is_fact ? page->facts : page->checks, object);
}

static void show_section(struct page *page, const char *title, const struct mt_facts *facts,
			 unsigned shown)
{
	struct mt_diagnosis found = {.count = 0};

	if (!page->json)
		printf("%s%s%s\n", mt_table_colour(MT_COLOUR_HEAD), title, mt_table_colour_end());
	mt_rules_run(facts, shown, &found);
	if (facts->process.pid)
		mt_diagnose_end_advice(facts, &found);
	for (size_t i = 0; i < found.count; i++)
		show(page, title, &found.list[i]);
	mt_diagnosis_free(&found);
}

/* What one look shows, without that of the section before. The set-up is in order all the same:
 * they are notes. */
static void show_now(struct page *page, const char *title, const struct mt_facts *facts)
{
	struct mt_diagnosis found = {.count = 0};

	mt_findings_of_one_look(facts, &found);
	for (size_t i = 0; i < found.count; i++) {
		struct mt_finding note = found.list[i];

		if (note.shown & MT_SHOWN_PROCESS)
			continue;
		note.state = MT_NOTE;
		snprintf(note.text, sizeof(note.text), "%s: %.600s", mt_finding_word(&note),
			 found.list[i].text);
		show(page, title, &note);
	}
	mt_diagnosis_free(&found);
}

static void examine(struct page *page, const struct mt_process *process)
{
	struct mt_facts *facts = mt_error_check_memory(calloc(1, sizeof(*facts)));
	struct mt_error_reason why;
	char title[256];

	if (process) {
		snprintf(title, sizeof(title), "process %d (%s)", (int)process->pid, process->comm);
		(void)mt_diagnose_look(process, false, facts, &why);
		show_section(page, title, facts, MT_SHOWN_PROCESS);
		show_now(page, title, facts);
	} else {
		mt_diagnose_look_here(facts);
		show_section(page, "a program started from here", facts, MT_SHOWN_START);
	}
	show_section(page, "the machine", facts, MT_SHOWN_MACHINE);
	free(facts);
}

int mt_command_doctor(int argc, char **argv)
{
	struct page page = {.json = false};
	const struct mt_option options[] = {{.name = "json", .target = &page.json}, {0}};
	const struct mt_command_line line = {"doctor", NULL, options, 0, 1};
	struct mt_process process = {0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = optind < argc ? mt_target_find(argv[optind], &process) : MT_EXIT_OK;
	if (code != MT_EXIT_OK)
		return code;
	if (page.json) {
		page.checks = json_array();
		page.facts = json_array();
	}
	examine(&page, optind < argc ? &process : NULL);
	if (page.json) {
		json_t *root = json_object();

		mt_json_set(root, "checks", page.checks);
		mt_json_set(root, "facts", page.facts);
		mt_json_set_u64(root, "warnings_count", page.warnings_count);
		mt_json_print(root, true);
	}
	return page.warnings_count ? MT_EXIT_NOTHING : MT_EXIT_OK;
}
