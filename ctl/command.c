#include "ctl/command.h"

#include <stdio.h>
#include <string.h>

static const struct mt_command commands[] = {
#define X(function, name, arguments, help) {name, arguments, help, NULL},
	MT_COMMANDS(X)
#undef X
#define X(name, arguments, help, program) {name, arguments, help, program},
		MT_SUBCOMMANDS(X)
#undef X
};

const struct mt_command *mt_command_list(size_t *count)
{
	*count = sizeof(commands) / sizeof(commands[0]);
	return commands;
}

const struct mt_command *mt_command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int mt_command_help(const char *name, const char *details)
{
	const struct mt_command *command = mt_command_find(name);

	printf("usage: mtctl %s %s\n%s\n", command->name, command->arguments, command->help);
	if (details)
		printf("\n%s", details);
	return MT_EXIT_OK;
}

int mt_command_misused(const char *name)
{
	const struct mt_command *command = mt_command_find(name);

	fprintf(stderr, "usage: mtctl %s %s   (mtctl %s --help says more)\n", command->name,
		command->arguments, command->name);
	return MT_EXIT_USAGE;
}

int mt_command_finish(int code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		mt_error_say("cannot write the output");
		return code ? code : MT_EXIT_USAGE;
	}
	return code;
}

/* The option that has just been taken is the last word, or the one before where that is its
 * argument. */
int mt_command_option(int argc, char **argv, const char *letters, const struct option *options)
{
	int place = -1, option = getopt_long(argc, argv, letters, options, &place);
	const char *word;
	size_t length;

	if (place < 0 || option == '?' || option == -1)
		return option;
	word = optarg && optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1];
	length = strcspn(word += strlen("--"), "=");
	if (length == strlen(options[place].name))
		return option;
	mt_error_say("no option '--%.*s'; did you mean '--%s'?", (int)length, word,
		     options[place].name);
	return '?';
}

sigset_t mt_command_block_endings(void)
{
	static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (sigaction(endings[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, endings[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}
