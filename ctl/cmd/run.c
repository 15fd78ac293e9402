/* ctl/cmd/run.c -- `mtctl run`: a program under the shim. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/process/preload.h"
#include "ctl/cmd/setting_option.h"

static int print_help(void)
{
	mt_command_help("run", "The library is MTSHIM_LIBRARY, else the one beside mtctl, in "
			       "../lib, or where it was\n"
			       "installed. An LD_PRELOAD that is there already stays, behind it. "
			       "Exit codes are those\n"
			       "of the program; 127: not found, 126: cannot be run, 2: a bad "
			       "option.\n\noptions:\n");
	mt_setting_option_print();
	return MT_EXIT_OK;
}

int mt_command_run(int argc, char **argv)
{
	static const struct option own[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct option *options = mt_setting_option_list(own);
	enum mt_exit code = MT_EXIT_OK;
	int option, failed;

	/* "+": what follows the program's name is the program's. */
	while (code == MT_EXIT_OK &&
	       (option = mt_command_option(argc, argv, "+h", options)) != -1) {
		if (option == 'h')
			return print_help();
		code = mt_setting_option_is(option) ? mt_setting_option_take(option, optarg)
						    : MT_EXIT_USAGE;
	}
	free(options);
	if (code != MT_EXIT_OK)
		return code;
	if (optind >= argc) {
		mt_error_say("run: no program given");
		return mt_command_misused("run");
	}
	code = mt_preload_prepare();
	if (code != MT_EXIT_OK)
		return code;
	execvp(argv[optind], &argv[optind]);
	failed = errno;
	mt_error_say("%s: %s", argv[optind], strerror(failed));
	return failed == ENOENT ? MT_EXIT_NOT_FOUND : MT_EXIT_CANNOT_RUN;
}
