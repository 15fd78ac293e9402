/* ctl/cmd/run.c -- `mtctl run`: a program under the shim. */
#include "ctl/cmd/parts.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/figures/stats_file.h"
#include "ctl/figures/setting.h"
#include "ctl/process/obstacle.h"
#include "ctl/process/preload.h"

/* ---- settings as options ---- */

static bool take(const struct mt_option *option, const char *value)
{
	const struct mt_setting *setting = option->target;
	struct mt_error_reason why;

	value = value ? value : "1";
	if (mt_setting_check(setting, value, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return false;
	}
	if (setenv(setting->environment, value, 1) != 0)
		mt_error_check_memory(NULL);
	return true;
}

struct mt_option *mt_setting_option_list(const struct mt_option *own)
{
	size_t count, own_count = 0;
	const struct mt_setting *all = mt_setting_all(&count);
	struct mt_option *options;

	while (own[own_count].name)
		own_count++;
	options = mt_error_check_memory(calloc(own_count + count + 1, sizeof(*options)));
	for (size_t i = 0; i < own_count; i++)
		options[i] = own[i];
	for (size_t i = 0; i < count; i++)
		options[own_count + i] =
			(struct mt_option){.name = all[i].option,
					   .target = (void *)(uintptr_t)&all[i],
					   .take = take,
					   .value_optional = all[i].kind == MT_SETTING_bool};
	return options;
}

/* Prints the list of settings for --help. */
static void setting_option_print(void)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	char allowed[128];

	puts("settings of the program that is started, as `mtctl options` lists them:");
	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		printf("  --%s%s   %s\n        %s%s; default %s\n", all[i].option,
		       all[i].kind == MT_SETTING_bool ? "[=VALUE]" : "=VALUE", allowed, all[i].help,
		       all[i].live ? "" : " (start only)",
		       *all[i].initial ? all[i].initial : "\"\"");
	}
}

/* ---- the command ---- */

#define SESSION_LOOK_MS 500

/* Waits for the end of the program, and keeps nothing of it but the terminal: another session, no
 * working directory, no other descriptor. */
static void watch(int program_fd, pid_t program, pid_t session)
{
	struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};

	(void)setsid();
	if (chdir("/") != 0 || dup2(program_fd, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
	    syscall(__NR_close_range, STDERR_FILENO + 1, ~0u, 0) != 0)
		return;
	while (poll(&end, 1, SESSION_LOOK_MS) <= 0)
		if (getsid(program) != session)
			return; /* the program has left the terminal: so does this process */
	mt_last_look_say(program);
}

/* Leaves a process behind that says what became of the program, which this process is about to be.
 * It must be no child of the program: its parent ends at once, and where this process would inherit
 * it (the first of a pid namespace, a subreaper) there is none. */
static void start_watch(void)
{
	const pid_t program = getpid(), session = getsid(0);
	pid_t between;
	int is_reaper = 0, fd;

	if (program == 1 || prctl(PR_GET_CHILD_SUBREAPER, &is_reaper) != 0 || is_reaper)
		return;
	fd = (int)syscall(SYS_pidfd_open, program, 0); /* closed by exec */
	if (fd < 0)
		return;
	between = fork();
	if (between == 0) {
		if (fork() == 0)
			watch(fd, program, session);
		_exit(0);
	}
	while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR)
		;
}

int mt_command_run(int argc, char **argv)
{
	bool quiet = false;
	const struct mt_option own[] = {{.name = "quiet", .target = &quiet, .letter = 'q'}, {0}};
	struct mt_option *options = mt_setting_option_list(own);
	const struct mt_command_line line = {"run", setting_option_print, options, 0,
					     MT_OPERANDS_PROGRAM};
	char path[PATH_MAX];
	pid_t front;
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
	/* A job in the background of a terminal may not write to it (stty tostop). Of a terminal
	 * that is not its own it is not told the group in front. */
	front = isatty(STDERR_FILENO) ? tcgetpgrp(STDERR_FILENO) : 0;
	if (!quiet && front && (front < 0 || front == getpgrp()) &&
	    mt_obstacle_find_command(argv[optind], path, sizeof(path))) {
		start_watch();
		mt_error_say("process %d runs under mtshim " MT_VERSION
			     "; in another terminal: %s stat %d",
			     (int)getpid(), program_invocation_name, (int)getpid());
	}
	execvp(argv[optind], &argv[optind]);
	failed = errno;
	mt_error_say("%s: %s", argv[optind], strerror(failed));
	return failed == ENOENT ? MT_EXIT_NOT_FOUND : MT_EXIT_CANNOT_RUN;
}
