/* ctl/command_help.c -- what `mtctl COMMAND --help` prints of every command: see command.h. */
#include "ctl/command.h"

#include <stdio.h>
#include <string.h>

static bool takes_pid(const struct mt_command *command)
{
	return strstr(command->arguments, "PID") != NULL;
}

static bool runs_program(const struct mt_command *command)
{
	return strstr(command->arguments, "program...") != NULL;
}

/* What exit code 1 means, where that is more than for all. */
static const char *meaning_of_nothing(const char *name)
{
	static const char *const meanings[][2] = {
		{"trim", "with --check: nothing was freed; else a process has refused"},
		{"check", "at the threshold or above it"},
		{"doctor", "there are warnings"},
		{"fit", "not even one client fits"},
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

		if ((of_pid && !takes_pid(command)) || (of_program && !runs_program(command)) ||
		    (of_nothing && !nothing && !takes_pid(command)))
			continue;
		printf("  %3d  %s\n", (int)exits[i].code,
		       of_nothing && nothing ? nothing : exits[i].meaning);
	}
}

int mt_command_help(const char *name, const char *details)
{
	const struct mt_command *command = mt_command_find(name);

	printf("usage: mtctl %s %s\n%s\n", command->name, command->arguments, command->help);
	if (details)
		printf("\n%s", details);
	if (takes_pid(command))
		printf("\nPID is the id of a process, or a name: that of its command (python3) or "
		       "of "
		       "its\nscript (train.py).%s\n",
		       strstr(command->arguments, "PID...")
			       ? " PID... takes several, and lists: 12,13,train.py."
			       : "");
	print_exits(command);
	return MT_EXIT_OK;
}
