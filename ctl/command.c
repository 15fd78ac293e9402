/* ctl/command.c -- see command.h. */
#include "ctl/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"
#include "ctl/output/units.h"

#define FIRST_OPTION 256 /* above every letter */

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

/* The option is the last word that was read, or the one before its argument. */
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

bool mt_option_text(const struct mt_option *option, const char *text)
{
	*(const char **)option->target = text;
	return true;
}

bool mt_option_seconds(const struct mt_option *option, const char *text)
{
	return mt_units_parse_seconds(text, option->target);
}

bool mt_option_number(const struct mt_option *option, const char *text)
{
	if (mt_text_parse_u64(text, option->target))
		return true;
	mt_error_say("'%s' is not %s", text, option->what);
	return false;
}

bool mt_option_take_tree(const struct mt_option *option, const char *text)
{
	struct mt_option_tree *tree = option->target;

	tree->is_wanted = true;
	if (text)
		tree->pid = text;
	return true;
}

/* The tables of getopt_long(3): `letters` has room for three characters an option. */
static struct option *list_options(const struct mt_command_line *line, char *letters)
{
	size_t count = 0;
	struct option *list;

	while (line->options[count].name)
		count++;
	list = mt_error_check_memory(calloc(count + 2, sizeof(*list)));
	letters += sprintf(letters, "%sh", line->operands_max == MT_OPERANDS_PROGRAM ? "+" : "");
	for (size_t i = 0; i < count; i++) {
		const struct mt_option *option = &line->options[i];
		int has_value = !option->take            ? no_argument
				: option->value_optional ? optional_argument
							 : required_argument;

		list[i] = (struct option){option->name, has_value, NULL, FIRST_OPTION + (int)i};
		if (option->letter)
			letters +=
				sprintf(letters, "%c%s", option->letter, option->take ? ":" : "");
	}
	list[count] = (struct option){"help", no_argument, NULL, 'h'};
	return list;
}

static bool take(const struct mt_command_line *line, int number)
{
	const struct mt_option *option = line->options;

	if (number == '?')
		return false;
	if (number >= FIRST_OPTION)
		option += number - FIRST_OPTION;
	else
		while (option->letter != number)
			option++;
	if (option->take)
		return option->take(option, optarg);
	*(bool *)option->target = true;
	return true;
}

bool mt_command_line_read(const struct mt_command_line *line, int argc, char **argv, int *out_code)
{
	char letters[32];
	struct option *list = list_options(line, letters);
	int number;

	*out_code = MT_EXIT_OK;
	while ((number = mt_command_option(argc, argv, letters, list)) != -1) {
		if (number != 'h' && take(line, number))
			continue;
		*out_code =
			number == 'h' ? mt_command_help(line->command, line->help) : MT_EXIT_USAGE;
		if (number == 'h' && line->print_more)
			line->print_more();
		break;
	}
	free(list);
	if (number != -1)
		return false;
	if (argc - optind >= line->operands_min &&
	    (line->operands_max == MT_OPERANDS_PROGRAM || argc - optind <= line->operands_max))
		return true;
	*out_code = mt_command_misused(line->command);
	return false;
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
