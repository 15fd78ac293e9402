/* ctl/run.c -- `mtctl run`: a program under the shim. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/preload.h"
#include "ctl/setting.h"
#include "ctl/text.h"

#define FIRST_SETTING 256 /* above every character that getopt_long may answer */

static int print_help(void)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	char allowed[128];

	mt_command_help("run", "The library is MTSHIM_LIBRARY, else the one beside mtctl, in ../lib, or where it was\n"
			       "installed. An LD_PRELOAD that is there already stays, behind it. Exit codes are those\n"
			       "of the program; 127: not found, 126: cannot be run, 2: a bad option.\n\noptions:\n");
	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		printf("  --%s%s   %s\n        %s%s; default %s\n", all[i].option,
		       all[i].kind == MT_SETTING_bool ? "[=VALUE]" : "=VALUE", allowed, all[i].help,
		       all[i].live ? "" : " (start only)", *all[i].initial ? all[i].initial : "\"\"");
	}
	return MT_EXIT_OK;
}

static struct option *make_options(void)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	struct option *options = mt_error_check_memory(calloc(count + 2, sizeof(*options)));

	for (size_t i = 0; i < count; i++) {
		options[i].name = all[i].option;
		options[i].has_arg = all[i].kind == MT_SETTING_bool ? optional_argument : required_argument;
		options[i].val = FIRST_SETTING + (int)i;
	}
	options[count] = (struct option){"help", no_argument, NULL, 'h'};
	return options;
}

/* The environment is the road to the shim; the program's own environment grows by just these names. */
static enum mt_exit take_setting(const struct mt_setting *setting, const char *value)
{
	struct mt_why why;

	value = value ? value : "1";
	if (mt_setting_check(setting, value, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_USAGE;
	}
	if (setenv(setting->environment, value, 1) != 0)
		mt_error_check_memory(NULL);
	return MT_EXIT_OK;
}

static enum mt_exit preload(void)
{
	char library[PATH_MAX];
	struct mt_why why;
	char *list;

	if (mt_preload_find(library, sizeof(library), &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_CANNOT_RUN;
	}
	list = mt_preload_list(library, getenv("LD_PRELOAD"));
	if (setenv("LD_PRELOAD", list, 1) != 0)
		mt_error_check_memory(NULL);
	free(list);
	return MT_EXIT_OK;
}

int mt_command_run(int argc, char **argv)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	struct option *options = make_options();
	enum mt_exit code = MT_EXIT_OK;
	int option, failed;

	/* "+": what follows the program's name is the program's. */
	while (code == MT_EXIT_OK && (option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (option == 'h')
			return print_help();
		code = option >= FIRST_SETTING ? take_setting(&all[option - FIRST_SETTING], optarg) : MT_EXIT_USAGE;
	}
	free(options);
	if (code != MT_EXIT_OK)
		return code;
	if (optind >= argc) {
		mt_error_say("run: no program given");
		return mt_command_misused("run");
	}
	code = preload();
	if (code != MT_EXIT_OK)
		return code;
	execvp(argv[optind], &argv[optind]);
	failed = errno;
	mt_error_say("%s: %s", argv[optind], strerror(failed));
	return failed == ENOENT ? MT_EXIT_NOT_FOUND : MT_EXIT_CANNOT_RUN;
}
