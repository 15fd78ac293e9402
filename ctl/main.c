/* ctl/main.c -- mtctl: finds the command and hands over. */
#include <stdio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/table.h"
#include "ctl/text.h"

struct command {
	const char *name, *arguments, *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define X(function, name, arguments, help) {name, arguments, help, mt_command_##function},
	MT_COMMANDS(X)
#undef X
};
#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMANDS_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int mt_command_help(const char *name, const char *details)
{
	const struct command *command = find(name);

	printf("usage: mtctl %s %s\n%s\n", command->name, command->arguments, command->help);
	if (details)
		printf("\n%s", details);
	return MT_EXIT_OK;
}

int mt_command_misused(const char *name)
{
	const struct command *command = find(name);

	fprintf(stderr, "usage: mtctl %s %s   (mtctl %s --help says more)\n", command->name, command->arguments,
		command->name);
	return MT_EXIT_USAGE;
}

static int print_help(void)
{
	printf("mtctl %s -- keeps the memory of long-running programs down, from outside\n\n", MT_VERSION);
	for (size_t i = 0; i < COMMANDS_COUNT; i++)
		printf("  %s%-11s%s %-26s %s\n", mt_table_colour(MT_COLOUR_HEAD), commands[i].name,
		       mt_table_colour_end(), commands[i].arguments, commands[i].help);
	printf("\nFor example:\n"
	       "  mtctl run --gc-rounds=5 -- python3 train.py\n"
	       "  mtctl ps\n"
	       "  mtctl trim --all\n"
	       "\n`mtctl COMMAND --help` says more; exit codes are in docs/mtctl.md.\n");
	return MT_EXIT_OK;
}

static int refuse_unknown(const char *name)
{
	const char *names[COMMANDS_COUNT], *nearest;

	for (size_t i = 0; i < COMMANDS_COUNT; i++)
		names[i] = commands[i].name;
	nearest = mt_text_nearest(name, names, COMMANDS_COUNT);
	if (nearest)
		mt_error_say("no command '%.60s'; did you mean '%s'?", name, nearest);
	else
		mt_error_say("no command '%.60s'; `mtctl help` lists them", name);
	return MT_EXIT_USAGE;
}

/* Output that did not reach its reader (a full disk, a closed pipe) is a failure, whatever the command says. */
static int finish(int code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		mt_error_say("cannot write the output");
		return code ? code : MT_EXIT_USAGE;
	}
	return code;
}

int main(int argc, char **argv)
{
	static char program[] = "mtctl", help[] = "--help";
	char *asked[] = {program, help, NULL};
	const char *name = argc > 1 ? argv[1] : "help";
	const struct command *command = find(name);

	if (command) {
		argv[1] = program;
		return finish(command->run(argc - 1, argv + 1));
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
		printf("mtctl %s\n", MT_VERSION);
		return finish(MT_EXIT_OK);
	}
	if (strcmp(name, "help") != 0 && strcmp(name, "--help") != 0 && strcmp(name, "-h") != 0)
		return refuse_unknown(name);
	if (argc > 2) {
		command = find(argv[2]);
		return command ? finish(command->run(2, asked)) : refuse_unknown(argv[2]);
	}
	return finish(print_help());
}
