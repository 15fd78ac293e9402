/* ctl/cmd/subcommand_exec.c -- commands that are programs of their own: see MT_SUBCOMMANDS. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/process/install_dir.h"

int mt_subcommand_exec(const struct mt_command *command, char **argv)
{
	char path[PATH_MAX];
	int failed;

	if (!mt_install_dir_find(command->program, "mtshim", path, sizeof(path))) {
		mt_error_say("%s is a program of its own, %s, and is not installed here",
			     command->name, command->program);
		return MT_EXIT_NOT_FOUND;
	}
	argv[0] = (char *)(uintptr_t)command->name;
	execv(path, argv - 1);
	failed = errno;
	mt_error_say("%s: %s", path, strerror(failed));
	return MT_EXIT_CANNOT_RUN;
}

int mt_subcommand_main(const struct mt_subcommand *list, int argc, char **argv)
{
	static char program[] = "mtctl";

	mt_command_open_standard();
	for (; argc > 1 && list->name; list++)
		if (strcmp(list->name, argv[1]) == 0) {
			argv[1] = program;
			return mt_command_finish(list->run(argc - 1, argv + 1));
		}
	mt_error_say("no such command here; this program is a part of mtctl: `mtctl help`");
	return MT_EXIT_USAGE;
}
