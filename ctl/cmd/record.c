/* ctl/cmd/record.c -- `mtctl record`: writes the memory of a program or of a running process over
 * time into a file of JSON lines. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ctl/channel/target.h"
#include "ctl/cmd/parts.h"
#include "ctl/figures/stats_file.h"
#include "ctl/metrics/recording.h"
#include "ctl/metrics/run.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/preload.h"
#include "ctl/process/start_command.h"

/* ---- what `mtctl record` prints at its end ---- */

#define COMMAND_MAX 400u

/* "python3 train.py", or "..." if it is too long. */
static void write_command(char **argv, char *out, size_t out_bytes)
{
	*out = '\0';
	for (; *argv; argv++)
		if (!mt_shell_word_add(*argv, out, out_bytes)) {
			strcpy(out, "...");
			return;
		}
}

static void print_figures(const struct mt_run *run)
{
	static const enum mt_run_column columns[] = {MT_RUN_PEAK, MT_RUN_MEAN, MT_RUN_END,
						     MT_RUN_TIME, MT_RUN_CPU};
	char text[320] = "", cell[80];
	size_t used = 0;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		mt_run_cell(run, NULL, columns[i], cell, sizeof(cell));
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", i ? ", " : "",
					 mt_run_title(columns[i]), cell);
	}
	mt_error_say("%s, %s", text,
		     mt_text_counted(run->cleanups_count, "cleanup", "cleanups").text);
}

static void print_next(const char *path, const struct mt_recorder_options *options, char **argv)
{
	const char *tree = options->tree ? " --tree" : "";
	char command[COMMAND_MAX + 1];
	char file[COMMAND_MAX + 1] = "";

	/* as the user has called it: it may be no command of the shell's */
	const char *mtctl = program_invocation_name;

	if (!mt_shell_word_add(path, file, sizeof(file)))
		strcpy(file, "FILE");
	if (!argv || options->shim)
		mt_error_say("next: %s plot %s", mtctl, file);
	if (!argv)
		return;
	write_command(argv, command, sizeof(command));
	if (options->shim)
		mt_error_say("against the program as it is: %s record%s --no-shim -o bare.jsonl "
			     "-- %s && %s compare bare.jsonl %s",
			     mtctl, tree, command, mtctl, file);
	else
		mt_error_say("next: %s record%s -o shim.jsonl -- %s && %s compare %s shim.jsonl",
			     mtctl, tree, command, mtctl, file);
}

/* Reads the recording again, and prints the figures that `mtctl compare` has of it, and the next
 * command to type, on stderr. argv: the program; NULL: a running process was watched. Prints
 * nothing if the recording has no samples. */
static void record_summary(const char *path, const struct mt_recorder_options *options, char **argv)
{
	struct mt_recording recording;
	struct mt_error_reason why;
	struct mt_run run;

	if (mt_recording_read(path, &recording, &why) != MT_ERR_OK)
		return;
	if (recording.samples_count) {
		mt_run_of(&recording, NULL, &run);
		print_figures(&run);
		print_next(path, options, argv);
	}
	mt_recording_free(&recording);
}

#define INTERVAL_MIN_SECONDS 0.01
#define INTERVAL_MAX_SECONDS 3600
/* time between polls for cleanups and rounds, if samples are farther apart */
#define POLL_NS UINT64_C(250000000)

/* Samples at fixed times, however long a sample takes. A late sample delays the next ones. */
static void keep_recording(struct mt_recorder *recorder, const struct mt_recorder_options *options,
			   struct mt_launch *launch)
{
	uint64_t first_ns = mt_clock_now_ns(), next_ns = first_ns, poll_ns, now_ns, interval_ns;
	bool alive;

	while (!launch->ended) {
		interval_ns = mt_recorder_interval_ns(options, next_ns - first_ns);
		alive = mt_recorder_sample(recorder, interval_ns);
		next_ns += interval_ns;
		now_ns = mt_clock_now_ns();
		if (next_ns < now_ns)
			next_ns = now_ns;
		poll_ns = now_ns + POLL_NS;
		for (; alive && poll_ns < next_ns && !mt_launch_wait(launch, poll_ns);
		     poll_ns += POLL_NS)
			alive = mt_recorder_poll(recorder);
		/* The end of a program that was started here comes as a signal. */
		if (!alive && !options->started)
			return;
		if (!launch->ended)
			(void)mt_launch_wait(launch, next_ns);
	}
	(void)mt_recorder_poll(recorder);
}

struct wanted {
	struct mt_recorder_options options;
	const char *pid; /* a running process, by id or name; NULL: a program is started */
	bool quiet;
};

/* Closes the recording. argv: the program that was started; NULL: none. */
static void finish(const struct wanted *wanted, char **argv, struct mt_json_lines *lines)
{
	bool is_file = mt_json_lines_is_file(lines);

	mt_json_lines_close(lines);
	if (is_file && !wanted->quiet)
		record_summary(lines->path, &wanted->options, argv);
}

static int record_process(const struct wanted *wanted, struct mt_json_lines *lines)
{
	const struct mt_recorder_options *options = &wanted->options;
	struct mt_launch launch = {0};
	struct mt_recorder *recorder;
	struct mt_process process;
	struct mt_error_reason why;
	enum mt_exit code = options->shim && !options->tree
				    ? mt_target_find(wanted->pid, &process)
				    : mt_target_find_any(wanted->pid, options->tree, &process);

	if (code == MT_EXIT_NOT_SHIMMED)
		mt_error_say("with --no-shim it is recorded as it is, from the kernel's figures");
	if (code != MT_EXIT_OK)
		return code;
	if (mt_json_lines_open(lines->path, lines, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	launch.forwarded = mt_command_block_endings();
	recorder = mt_recorder_make(&process, options, lines);
	keep_recording(recorder, options, &launch);
	mt_recorder_end(recorder, &launch);
	finish(wanted, NULL, lines);
	return MT_EXIT_OK;
}

/* A program that has already ended has few figures in /proc, and one that ends or that has just
 * called exec has no arguments there. */
static void find_started(pid_t pid, char **argv, struct mt_process *out)
{
	struct mt_error_reason why;
	size_t used = 0;

	if (mt_process_find(pid, out, &why) != MT_ERR_OK) {
		*out = (struct mt_process){.pid = pid, .own_pid = pid};
		snprintf(out->comm, sizeof(out->comm), "%s", mt_text_basename(argv[0]));
		mt_text_clean(out->comm, sizeof(out->comm));
	} else if (strcmp(out->command, out->comm) != 0) {
		return;
	}
	for (; *argv && used < sizeof(out->command); argv++)
		used += (size_t)snprintf(out->command + used, sizeof(out->command) - used, "%s%s",
					 used ? " " : "", *argv);
	mt_text_clean(out->command, sizeof(out->command));
}

static int record_program(char **argv, const struct wanted *wanted, struct mt_json_lines *lines)
{
	const struct mt_recorder_options *options = &wanted->options;
	struct mt_launch launch;
	struct mt_recorder *recorder;
	struct mt_process process;
	struct mt_error_reason why;
	enum mt_exit code = MT_EXIT_OK;

	if (mt_json_lines_open(lines->path, lines, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (options->shim)
		code = mt_preload_prepare(argv[0]);
	if (code == MT_EXIT_OK)
		code = mt_launch_start(argv, &launch);
	if (code != MT_EXIT_OK) {
		mt_json_lines_close(lines);
		return code;
	}
	find_started(launch.pid, argv, &process);
	recorder = mt_recorder_make(&process, options, lines);
	keep_recording(recorder, options, &launch);
	mt_recorder_end(recorder, &launch);
	finish(wanted, argv, lines);
	if (options->shim && launch.ended && WIFSIGNALED(launch.status) &&
	    WTERMSIG(launch.status) == SIGKILL)
		mt_last_look_say(launch.pid);
	return mt_launch_exit(&launch);
}

/* Returns whether the first operand is a PID: a number, except behind "--". */
static bool names_process(char **argv)
{
	uint64_t pid;

	return strcmp(argv[optind - 1], "--") != 0 && mt_text_parse_u64(argv[optind], &pid);
}

static bool says_what_and_where(const char *path, bool has_operand, bool has_pid)
{
	if (path && has_operand != has_pid)
		return true;
	mt_error_say("record: %s", !path         ? "-o FILE is missing"
				   : has_operand ? "--pid and a program or PID"
						 : "no program and no PID given");
	return false;
}

int mt_command_record(int argc, char **argv)
{
	struct wanted wanted = {0};
	struct mt_json_lines lines = {.fd = -1};
	uint64_t interval_ms = 0;
	bool no_shim = false;
	const struct mt_option own[] = {
		{.name = "output", .target = &lines.path, .take = mt_option_text, .letter = 'o'},
		{.name = "interval",
		 .target = &interval_ms,
		 .take = mt_option_ms,
		 .min = INTERVAL_MIN_SECONDS,
		 .max = INTERVAL_MAX_SECONDS},
		{.name = "pid", .target = &wanted.pid, .take = mt_option_text},
		{.name = "tree", .target = &wanted.options.tree},
		{.name = "no-shim", .target = &no_shim},
		{.name = "quiet", .target = &wanted.quiet, .letter = 'q'},
		{0}};
	struct mt_option *options = mt_setting_option_list(own);
	const struct mt_command_line line = {"record", NULL, options, 0, MT_OPERANDS_PROGRAM};
	int code;
	bool goes_on = mt_command_line_read(&line, argc, argv, &code);

	/* options behind a PID: a program's own begin behind its name, which is no number */
	if (goes_on && !wanted.pid && optind + 1 < argc && *argv[optind + 1] == '-' &&
	    names_process(argv)) {
		wanted.pid = argv[optind++];
		goes_on = mt_command_line_read(&line, argc, argv, &code);
	}
	free(options);
	if (!goes_on)
		return code;
	if (!says_what_and_where(lines.path, optind < argc, wanted.pid))
		return mt_command_misused("record");
	wanted.options.shim = !no_shim;
	wanted.options.interval_ns = interval_ms * 1000000u;
	wanted.options.started = !wanted.pid && !(names_process(argv) && optind + 1 == argc);
	if (!wanted.options.started && !wanted.pid)
		wanted.pid = argv[optind];
	return wanted.options.started ? record_program(&argv[optind], &wanted, &lines)
				      : record_process(&wanted, &lines);
}
