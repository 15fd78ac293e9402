/* ctl/cmd/record.c -- `mtctl record`: writes the memory of a program or of a running process over
 * time into a file of JSON lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/process/preload.h"
#include "ctl/metrics/recorder.h"
#include "ctl/cmd/setting_option.h"
#include "ctl/process/target.h"

#define INTERVAL_MS          1000u
#define INTERVAL_MIN_SECONDS 0.01
#define INTERVAL_MAX_SECONDS 3600
/* time between polls for cleanups and rounds, where samples are farther apart */
#define POLL_NS UINT64_C(250000000)

static const char help[] =
	"Runs a program under the shim as `mtctl run` does, with its exit code, and writes its\n"
	"memory to FILE, a line each second. Or records a running process, until it ends, or\n"
	"until Ctrl-C or SIGTERM (a background job of a script ignores the signal of Ctrl-C).\n"
	"`mtctl plot FILE` draws a recording, `mtctl compare` several. Signals sent to mtctl are\n"
	"forwarded to a program that it has started.\n\n"
	"  -o, --output=FILE    the recording; an existing file is emptied\n"
	"  --interval=SECONDS   between samples (1), from 0.01 to 3600\n"
	"  --tree               every shimmed descendant as well\n"
	"  --no-shim            the program without the shim, from the kernel's figures alone:\n"
	"                       to compare with\n";

/* Samples at fixed times, however long a sample takes. A late sample delays the next ones. */
static void keep_recording(struct mt_recorder *recorder, const struct mt_recorder_options *options,
			   struct mt_launch *launch)
{
	uint64_t next_ns = mt_clock_now_ns(), poll_ns, now_ns;
	bool alive;

	while (!launch->ended) {
		alive = mt_recorder_sample(recorder);
		next_ns += options->interval_ns;
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

static int record_process(const char *text, const struct mt_recorder_options *options,
			  struct mt_json_lines *lines)
{
	struct mt_launch launch = {0};
	struct mt_recorder *recorder;
	struct mt_process process;
	struct mt_error_reason why;
	enum mt_exit code = (options->shim && !options->tree ? mt_target_find
							     : mt_target_find_any)(text, &process);

	if (code != MT_EXIT_OK)
		return code;
	if (mt_json_lines_open(lines->path, lines, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	launch.forwarded = mt_command_block_endings();
	recorder = mt_recorder_make(&process, options, lines);
	keep_recording(recorder, options, &launch);
	mt_recorder_end(recorder, &launch);
	mt_json_lines_close(lines);
	return MT_EXIT_OK;
}

/* A program that has already ended has few figures in /proc. */
static void find_started(pid_t pid, char **argv, struct mt_process *out)
{
	struct mt_error_reason why;

	if (mt_process_find(pid, out, &why) == MT_ERR_OK)
		return;
	*out = (struct mt_process){.pid = pid, .own_pid = pid};
	snprintf(out->comm, sizeof(out->comm), "%s", mt_text_basename(argv[0]));
	snprintf(out->command, sizeof(out->command), "%s", argv[0]);
	mt_text_clean(out->comm, sizeof(out->comm));
	mt_text_clean(out->command, sizeof(out->command));
}

static int record_program(char **argv, const struct mt_recorder_options *options,
			  struct mt_json_lines *lines)
{
	struct mt_launch launch;
	struct mt_recorder *recorder;
	struct mt_process process;
	struct mt_error_reason why;
	enum mt_exit code = MT_EXIT_OK;

	if (mt_json_lines_open(lines->path, lines, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (options->shim)
		code = mt_preload_prepare();
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
	mt_json_lines_close(lines);
	return mt_launch_exit(&launch);
}

/* Returns whether the operands name a program. A single number is a PID, except behind "--". */
static bool names_program(int argc, char **argv)
{
	uint64_t pid;

	return strcmp(argv[optind - 1], "--") == 0 || !mt_text_parse_u64(argv[optind], &pid) ||
	       optind + 1 < argc;
}

int mt_command_record(int argc, char **argv)
{
	struct mt_recorder_options wanted = {0};
	uint64_t interval_ms = INTERVAL_MS;
	struct mt_json_lines lines = {.fd = -1};
	bool no_shim = false;
	const struct mt_option own[] = {
		{.name = "output", .target = &lines.path, .take = mt_option_text, .letter = 'o'},
		{.name = "interval",
		 .target = &interval_ms,
		 .take = mt_option_ms,
		 .min = INTERVAL_MIN_SECONDS,
		 .max = INTERVAL_MAX_SECONDS},
		{.name = "tree", .target = &wanted.tree},
		{.name = "no-shim", .target = &no_shim},
		{0}};
	struct mt_option *options = mt_setting_option_list(own);
	const struct mt_command_line line = {"record", help, mt_setting_option_print,
					     options,  0,    MT_OPERANDS_PROGRAM};
	int code;
	bool goes_on = mt_command_line_read(&line, argc, argv, &code);

	free(options);
	if (!goes_on)
		return code;
	if (!lines.path || optind >= argc) {
		mt_error_say("record: %s",
			     lines.path ? "no program and no PID given" : "-o FILE is missing");
		return mt_command_misused("record");
	}
	wanted.shim = !no_shim;
	wanted.interval_ns = interval_ms * 1000000u;
	wanted.started = names_program(argc, argv);
	return wanted.started ? record_program(&argv[optind], &wanted, &lines)
			      : record_process(argv[optind], &wanted, &lines);
}
