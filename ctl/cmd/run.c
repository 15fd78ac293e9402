/* ctl/cmd/run.c -- `mtctl run`: a program under the shim. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/process/preload.h"
#include "ctl/cmd/setting_option.h"

static const char help[] =
	"The library is MTSHIM_LIBRARY, else the one beside mtctl, in ../lib, or where it was\n"
	"installed. An existing LD_PRELOAD stays, behind it. The exit code is that of the\n"
	"program. On a terminal it says the id of the process first, in one line.\n\n"
	"  -q, --quiet  no such line\n";

int mt_command_run(int argc, char **argv)
{
	bool quiet = false;
	const struct mt_option own[] = {{.name = "quiet", .target = &quiet, .letter = 'q'}, {0}};
	struct mt_option *options = mt_setting_option_list(own);
	const struct mt_command_line line = {"run",   help, mt_setting_option_print,
					     options, 0,    MT_OPERANDS_PROGRAM};
	int code, failed;
	bool goes_on = mt_command_line_read(&line, argc, argv, &code);

	free(options);
	if (!goes_on)
		return code;
	if (optind >= argc) {
		mt_error_say("run: no program given");
		return mt_command_misused("run");
	}
	code = mt_preload_prepare(argv[optind]);
	if (code != MT_EXIT_OK)
		return code;
	if (!quiet && isatty(STDERR_FILENO))
		mt_error_say("process %d runs under mtshim " MT_VERSION
			     "; in another terminal: %s stat %d",
			     (int)getpid(), program_invocation_name, (int)getpid());
	execvp(argv[optind], &argv[optind]);
	failed = errno;
	mt_error_say("%s: %s", argv[optind], strerror(failed));
	return failed == ENOENT ? MT_EXIT_NOT_FOUND : MT_EXIT_CANNOT_RUN;
}
