/* ctl/cmd/record_summary.c -- see record_summary.h. */
#include "ctl/cmd/record_summary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/metrics/run.h"
#include "ctl/output/shell_word.h"
#include "ctl/output/text.h"

#define COMMAND_MAX 400u

/* "python3 train.py", or "..." where it is too long. */
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

static void print_next(const char *path, bool with_shim, char **argv)
{
	char command[COMMAND_MAX + 1];
	char file[COMMAND_MAX + 1] = "";

	/* as the user has called it: it may be no command of the shell's */
	const char *mtctl = program_invocation_name;

	if (!mt_shell_word_add(path, file, sizeof(file)))
		strcpy(file, "FILE");
	if (!argv || with_shim)
		mt_error_say("next: %s plot %s", mtctl, file);
	if (!argv)
		return;
	write_command(argv, command, sizeof(command));
	if (with_shim)
		mt_error_say("against the program as it is: %s record --no-shim -o bare.jsonl "
			     "-- %s && %s compare bare.jsonl %s",
			     mtctl, command, mtctl, file);
	else
		mt_error_say("next: %s record -o shim.jsonl -- %s && %s compare %s shim.jsonl",
			     mtctl, command, mtctl, file);
}

void mt_record_summary(const char *path, bool with_shim, char **argv)
{
	struct mt_recording recording;
	struct mt_error_reason why;
	struct mt_run run;

	if (mt_recording_read(path, &recording, &why) != MT_ERR_OK)
		return;
	if (recording.samples_count) {
		mt_run_of(&recording, NULL, &run);
		print_figures(&run);
		print_next(path, with_shim, argv);
	}
	mt_recording_free(&recording);
}
