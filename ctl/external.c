/* ctl/external.c -- commands that are programs of their own: see MT_EXTERNALS. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"

/* The folder of this program, with its last slash; false where /proc does not tell. */
static bool own_folder(char *out, size_t out_bytes)
{
	ssize_t length = readlink("/proc/self/exe", out, out_bytes - 1);
	char *slash;

	if (length <= 0)
		return false;
	out[length] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return false;
	slash[1] = '\0';
	return true;
}

int mt_external_run(const struct mt_command *command, char **argv)
{
	char folder[PATH_MAX], path[PATH_MAX + 64];
	int missing = ENOENT;

	argv[0] = (char *)(uintptr_t)command->name;
	if (own_folder(folder, sizeof(folder))) {
		snprintf(path, sizeof(path), "%s%s", folder, command->program);
		execv(path, argv - 1);
		missing = errno;
		snprintf(path, sizeof(path), "%s../lib/mtshim/%s", folder, command->program);
		if (missing == ENOENT)
			execv(path, argv - 1);
	}
	if (missing == ENOENT) {
		snprintf(path, sizeof(path), "%s/mtshim/%s", MT_LIBDIR, command->program);
		execv(path, argv - 1);
		missing = errno;
	}
	if (missing == ENOENT) {
		mt_error_say("%s is a program of its own, %s, and is not installed here", command->name, command->program);
		return MT_EXIT_NOT_FOUND;
	}
	mt_error_say("%s: %s", path, strerror(missing));
	return MT_EXIT_CANNOT_RUN;
}

int mt_external_main(const struct mt_external *list, int argc, char **argv)
{
	static char program[] = "mtctl";

	for (; argc > 1 && list->name; list++)
		if (strcmp(list->name, argv[1]) == 0) {
			argv[1] = program;
			return mt_command_finish(list->run(argc - 1, argv + 1));
		}
	mt_error_say("no such command here; this program is a part of mtctl: `mtctl help`");
	return MT_EXIT_USAGE;
}
