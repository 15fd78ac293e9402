#include "ctl/command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build/gen/help.h"
#include "ctl/output/text.h"

#define FIRST_OPTION 256 /* above every letter */
#define DAY_SECONDS  86400.0

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

int mt_command_misused(const char *name)
{
	const struct mt_command *command = mt_command_find(name);

	fprintf(stderr, "usage: mtctl %s %s   (mtctl %s --help says more)\n", command->name,
		command->arguments, command->name);
	return MT_EXIT_USAGE;
}

/* For reading, so that a write fails as it would to the closed one. */
void mt_command_open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

volatile sig_atomic_t mt_command_ended;

void mt_command_end(int number)
{
	mt_command_ended = number;
}

void mt_command_set_end_signals(void (*handler)(int))
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = handler};
	struct sigaction before;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(ends[i], &action, NULL);
}

int mt_command_finish(int code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		mt_error_say("cannot write the output");
		return code ? code : MT_EXIT_USAGE;
	}
	return code;
}

bool mt_option_text(const struct mt_option *option, const char *text)
{
	*(const char **)option->target = text;
	return true;
}

bool mt_option_seconds(const struct mt_option *option, const char *text)
{
	double most = option->max > 0 ? option->max : DAY_SECONDS, seconds;

	if (mt_units_duration(text, &seconds) && seconds >= option->min && seconds <= most) {
		*(double *)option->target = seconds;
		return true;
	}
	mt_error_say("--%s=%.40s: a duration from %s to %s, as 0.5, 100ms, 30s, 2m or 1h",
		     option->name, text, mt_text_duration(option->min).text,
		     mt_text_duration(most).text);
	return false;
}

bool mt_option_ms(const struct mt_option *option, const char *text)
{
	double seconds;
	struct mt_option in_seconds = *option;

	in_seconds.target = &seconds;
	if (!mt_option_seconds(&in_seconds, text))
		return false;
	*(uint64_t *)option->target = mt_text_round_u64(seconds * 1000 + 0.5);
	return true;
}

bool mt_option_percent(const struct mt_option *option, const char *text)
{
	if (mt_units_percent(text, option->target))
		return true;
	mt_error_say("--%s=%.40s: a percentage from 0 to 100, as 85 or 2.5%%", option->name, text);
	return false;
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
	letters += sprintf(letters, "%s:h", line->operands_max == MT_OPERANDS_PROGRAM ? "+" : "");
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

/* ---- what is wrong with an option ---- */

static void say_no_option(const struct mt_command_line *line, const char *word)
{
	size_t count = 0, length = strcspn(word, "=");
	const char **names, *nearest;
	char name[64];

	while (line->options[count].name)
		count++;
	names = mt_error_check_memory(calloc(count + 1, sizeof(*names)));
	for (size_t i = 0; i < count; i++)
		names[i] = line->options[i].name;
	names[count] = "help";
	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	nearest = mt_text_nearest(name, names, count + 1);
	free(names);
	if (nearest)
		mt_error_say("%s has no option '--%s'; did you mean '--%s'?", line->command, name,
			     nearest);
	else
		mt_error_say("%s has no option '--%s'; `mtctl %s --help` lists them", line->command,
			     name, line->command);
}

static const struct mt_option *option_of(const struct mt_command_line *line, int number)
{
	if (number >= FIRST_OPTION)
		return &line->options[number - FIRST_OPTION];
	for (size_t i = 0; line->options[i].name; i++)
		if (line->options[i].letter == number)
			return &line->options[i];
	return NULL;
}

/* getopt(3) has returned '?' or ':' for `word`, and set optopt. */
static void say_wrong(const struct mt_command_line *line, int number, const char *word)
{
	const struct mt_option *option = optopt ? option_of(line, optopt) : NULL;

	if (number == ':' && option)
		mt_error_say("%s: --%s needs a value", line->command, option->name);
	else if (number == '?' && option)
		mt_error_say("%s: --%s takes no value", line->command, option->name);
	else if (strncmp(word, "--", 2) == 0)
		say_no_option(line, word + 2);
	else
		mt_error_say("%s has no option '-%c'; `mtctl %s --help` lists them", line->command,
			     optopt, line->command);
}

/* An option counts only if it is written in full: the abbreviation of today may mean another one
 * tomorrow. It is the last word that was read, or the one before its value. */
static bool is_in_full(const struct mt_command_line *line, char **argv, int place,
		       const struct option *list)
{
	const char *word =
		optarg && optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1];

	word += strlen("--");
	if (strcspn(word, "=") == strlen(list[place].name))
		return true;
	say_no_option(line, word);
	return false;
}

/* Returns the number of the next option that is valid, -1 at their end, '?' after a message. */
static int next_option(const struct mt_command_line *line, int argc, char **argv,
		       const char *letters, const struct option *list)
{
	int place = -1, number = getopt_long(argc, argv, letters, list, &place);

	if (number == -1)
		return number;
	if (number == '?' || number == ':') {
		say_wrong(line, number, argv[optind - 1]);
		return '?';
	}
	return place < 0 || is_in_full(line, argv, place, list) ? number : '?';
}

static bool take(const struct mt_command_line *line, int number)
{
	const struct mt_option *option = number == '?' ? NULL : option_of(line, number);

	if (!option)
		return false;
	if (option->take)
		return option->take(option, optarg);
	*(bool *)option->target = true;
	return true;
}

/* ---- command help ---- */

static bool takes_pid(const struct mt_command *command)
{
	return strstr(command->arguments, "PID") != NULL;
}

/* What exit code 1 means, if that is more than for all. */
static const char *meaning_of_nothing(const char *name)
{
	static const char *const meanings[][2] = {
		{"trim", "with --check: nothing was freed; else a process has refused"},
		{"check", "at the threshold or above it"},
		{"doctor", "there are warnings"},
		{"export", "with --otlp: libcurl is missing"},
		{"fit", "not even one client fits, or what is free is not known"},
		{"sites", "no profile is to be had, or nothing has grown"},
		{"snapshot", "no CUDA in use there"},
	};

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (strcmp(meanings[i][0], name) == 0)
			return meanings[i][1];
	return NULL;
}

/* The codes that this command can end with. */
static void print_exits(const struct mt_command *command)
{
	static const struct {
		enum mt_exit code;
		const char *meaning;
	} exits[] = {
#define X(name, code, meaning) {MT_EXIT_##name, meaning},
		MT_EXITS(X)
#undef X
	};
	const char *nothing = meaning_of_nothing(command->name);

	puts("\nexit codes:");
	for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
		bool of_pid = exits[i].code >= MT_EXIT_NO_PROCESS &&
			      exits[i].code <= MT_EXIT_NOT_PERMITTED;
		bool of_program = exits[i].code >= MT_EXIT_CANNOT_RUN;
		bool of_nothing = exits[i].code == MT_EXIT_NOTHING;

		if ((of_pid && !takes_pid(command)) ||
		    (of_program && !strstr(command->arguments, "program...")) ||
		    (of_nothing && !nothing && !takes_pid(command)))
			continue;
		printf("  %3d  %s\n", (int)exits[i].code,
		       of_nothing && nothing ? nothing : exits[i].meaning);
	}
}

/* Prints "usage: mtctl NAME ARGUMENTS", the help of the table and of the page, what a PID may be,
 * and the exit codes to stdout. Returns 0. */
static int command_help(const char *name)
{
	const struct mt_command *command = mt_command_find(name);
	const char *details = "";

	for (size_t i = 0; i < sizeof(helps) / sizeof(helps[0]); i++)
		if (strcmp(helps[i].name, name) == 0)
			details = helps[i].text;
	printf("usage: mtctl %s %s\n%s\n", command->name, command->arguments, command->help);
	if (*details)
		printf("\n%s", details);
	if (takes_pid(command))
		printf("\nPID is the id of a process, or a name: that of its command (python3) or "
		       "of its\nscript (train.py).%s\n",
		       strstr(command->arguments, "PID...")
			       ? " PID... takes several, and lists: 12,13,train.py."
			       : "");
	print_exits(command);
	return MT_EXIT_OK;
}

/* ---- the command line ---- */

bool mt_command_line_read(const struct mt_command_line *line, int argc, char **argv, int *out_code)
{
	char letters[32];
	struct option *list = list_options(line, letters);
	int number;

	opterr = 0;
	*out_code = MT_EXIT_OK;
	while ((number = next_option(line, argc, argv, letters, list)) != -1) {
		if (number != 'h' && take(line, number))
			continue;
		*out_code = number == 'h' ? command_help(line->command) : MT_EXIT_USAGE;
		if (number == 'h' && line->print_more) {
			putchar('\n');
			line->print_more();
		}
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
