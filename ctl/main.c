/* ctl/main.c -- mtctl: finds the command and calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

struct function {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct function functions[] = {
#define X(function, name, arguments, help) {name, mt_command_##function},
	MT_COMMANDS(X)
#undef X
};

/* argv[0] stands for the command. */
static int run(const struct mt_command *command, int argc, char **argv)
{
	static char program[] = "mtctl";

	if (command->program)
		return mt_subcommand_exec(command, argv);
	argv[0] = program;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strcmp(functions[i].name, command->name) == 0)
			return functions[i].run(argc, argv);
	return MT_EXIT_USAGE;
}

/* The order of the overview. Each command is in one group; a test compares them. */
static const struct group {
	const char *title, *names[11];
} groups[] = {
	{"start", {"run", "record", "options", "presets"}},
	{"watch", {"ps", "top", "stat", "serve", "check"}},
	{"act", {"trim", "round", "set", "reset-peak"}},
	{"explain",
	 {"diagnose", "last", "look", "doctor", "advise", "sites", "snapshot", "budget", "fit"}},
	{"export", {"report", "plot", "compare", "trace", "export"}},
};

static void print_groups(void)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		printf("%s\n", groups[i].title);
		for (size_t j = 0; groups[i].names[j]; j++) {
			const struct mt_command *command = mt_command_find(groups[i].names[j]);

			printf("  %s%-11s%s %-35s %s\n", mt_table_colour(MT_COLOUR_HEAD),
			       command->name, mt_table_colour_end(), command->arguments,
			       command->help);
		}
		putchar('\n');
	}
}

static int print_help(void)
{
	printf("mtctl %s -- shows and controls the memory of long-running programs\n\n",
	       MT_VERSION);
	print_groups();
	puts("exit codes");
#define X(name, code, meaning) printf("  %3d  %s\n", code, meaning);
	MT_EXITS(X)
#undef X
	puts("\nFor example:\n"
	     "  mtctl run --gc-rounds=5 -- python3 train.py\n"
	     "  mtctl ps\n"
	     "  mtctl stat train.py\n"
	     "  mtctl trim --all\n"
	     "\n`mtctl COMMAND --help` says more. PID is the id of a process, or its name.");
	return MT_EXIT_OK;
}

static int refuse_unknown(const char *name)
{
	size_t count;
	const struct mt_command *commands = mt_command_list(&count);
	const char **names = mt_error_check_memory(calloc(count, sizeof(*names))), *nearest;

	for (size_t i = 0; i < count; i++)
		names[i] = commands[i].name;
	nearest = mt_text_nearest(name, names, count);
	free(names);
	if (nearest)
		mt_error_say("no command '%.60s'; did you mean '%s'?", name, nearest);
	else
		mt_error_say("no command '%.60s'; `mtctl help` lists them", name);
	return MT_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static char before[] = "mtctl", place[] = "", option[] = "--help";
	char *asked[] = {before, place, option, NULL};
	const char *name = argc > 1 ? argv[1] : "help";
	const struct mt_command *command = mt_command_find(name);

	mt_command_open_standard();
	if (command)
		return mt_command_finish(run(command, argc - 1, argv + 1));
	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
		printf("mtctl %s\n", MT_VERSION);
		return mt_command_finish(MT_EXIT_OK);
	}
	if (strcmp(name, "help") != 0 && strcmp(name, "--help") != 0 && strcmp(name, "-h") != 0)
		return refuse_unknown(name);
	if (argc > 2) {
		command = mt_command_find(argv[2]);
		return command ? mt_command_finish(run(command, 2, asked + 1))
			       : refuse_unknown(argv[2]);
	}
	return mt_command_finish(print_help());
}
