/* ctl/metrics/recording_source.c -- see recording_source.h. */
#include "ctl/metrics/recording_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/control_file.h"
#include "ctl/process/read_file.h"

/* Whether a file in the present directory is no recording: a program is often named there by its
 * script, "train.py". Only a regular file is read. */
static bool is_something_else(const char *word)
{
	size_t length = 0;
	char *first = mt_read_file_first(word, 1, &length);
	bool something_else = first && length && *first != '{';

	free(first);
	return something_else;
}

bool mt_recording_is_file(const char *word)
{
	if (strchr(word, '/') || mt_text_ends_with(word, ".jsonl") ||
	    mt_text_ends_with(word, ".json"))
		return true;
	return access(word, F_OK) == 0 && !is_something_else(word);
}

enum mt_exit mt_recording_of_word(const char *word, struct mt_recording *out)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	enum mt_exit code = mt_target_find(word, &target->process);

	if (code == MT_EXIT_OK) {
		mt_control_file_refresh(&target->process);
		code = mt_target_load(target);
	}
	if (code == MT_EXIT_OK)
		mt_recording_of_process(target, out);
	free(target);
	return code;
}

enum mt_exit mt_recording_of_source(const char *word, struct mt_recording *out)
{
	struct mt_error_reason why;

	if (!mt_recording_is_file(word))
		return mt_recording_of_word(word, out);
	if (mt_recording_read(word, out, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (*out->warning.text)
		mt_error_say("%s", out->warning.text);
	return MT_EXIT_OK;
}
