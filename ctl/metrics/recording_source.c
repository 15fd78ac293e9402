/* ctl/metrics/recording_source.c -- see recording_source.h. */
#include "ctl/metrics/recording_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/control_file.h"

bool mt_recording_is_file(const char *word)
{
	return access(word, F_OK) == 0 || strchr(word, '/') || mt_text_ends_with(word, ".jsonl") ||
	       mt_text_ends_with(word, ".json");
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
