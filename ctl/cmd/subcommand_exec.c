/* ctl/cmd/subcommand_exec.c -- commands that are programs of their own: see MT_SUBCOMMANDS. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/process/preload.h"

/* What each of these programs needs beside mtctl's own libraries. The hint comes before the message
 * of the loader, which only the exec brings. */
static void say_missing_library(const char *program)
{
	static const struct {
		const char *program, *library, *package;
	} needs[] = {{"mtctl-top", "libncursesw.so.6", "libncursesw6"},
		     {"mtctl-plot", "libcairo.so.2", "libcairo2"},
		     {"mtctl-serve", "libmicrohttpd.so.12", "libmicrohttpd12"}};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (strcmp(needs[i].program, program) == 0 &&
		    !dlopen(needs[i].library, RTLD_LAZY | RTLD_LOCAL))
			mt_error_say("%s needs %s: the package %s of Debian and Ubuntu has it",
				     program, needs[i].library, needs[i].package);
}

int mt_subcommand_exec(const struct mt_command *command, char **argv)
{
	char path[PATH_MAX];
	int failed;

	if (!mt_install_dir_find(command->program, "mtshim", path, sizeof(path))) {
		mt_error_say("%s is a program of its own, %s, and is not installed here; the "
			     "package mtshim has it",
			     command->name, command->program);
		return MT_EXIT_NOT_FOUND;
	}
	say_missing_library(command->program);
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
