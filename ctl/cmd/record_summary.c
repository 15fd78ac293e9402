/* ctl/cmd/record_summary.c -- see record_summary.h. */
#include "ctl/cmd/record_summary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/metrics/run.h"
#include "ctl/output/text.h"

#define COMMAND_MAX 400u

/* Appends a word as a shell reads it. Returns false where there is no more room. */
static bool add_word(char *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./,:@%";
	size_t used = strlen(out);
	bool bare = *word && word[strspn(word, plain)] == '\0';

	if (used + 4 * strlen(word) + 4 > COMMAND_MAX)
		return false;
	used += (size_t)sprintf(out + used, bare ? " " : " '");
	for (; *word; word++)
		used += (size_t)sprintf(out + used, *word == '\'' ? "'\\''" : "%c", *word);
	if (!bare)
		sprintf(out + used, "'");
	return true;
}

/* "python3 train.py", or "..." where it is too long. */
static void write_command(char **argv, char *out, size_t out_bytes)
{
	char words[COMMAND_MAX + 1] = "";

	for (; *argv; argv++)
		if (!add_word(words, *argv)) {
			strcpy(words, " ...");
			break;
		}
	mt_text_clean_utf8(words, out, out_bytes);
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

	if (!add_word(file, path))
		strcpy(file, " FILE");
	if (!argv || with_shim)
		mt_error_say("next: %s plot%s", mtctl, file);
	if (!argv)
		return;
	write_command(argv, command, sizeof(command));
	if (with_shim)
		mt_error_say("against the program as it is: %s record --no-shim -o bare.jsonl "
			     "--%s && %s compare bare.jsonl%s",
			     mtctl, command, mtctl, file);
	else
		mt_error_say("next: %s record -o shim.jsonl --%s && %s compare%s shim.jsonl", mtctl,
			     command, mtctl, file);
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
