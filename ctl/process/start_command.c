/* ctl/process/start_command.c -- see start_command.h. */
#include "ctl/process/start_command.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/shell_word.h"
#include "ctl/process/read_file.h"

#define CUT " ..."

bool mt_start_command_quote(const char *words, size_t length, char *out, size_t out_bytes)
{
	*out = '\0';
	for (const char *word = words; word < words + length; word += strlen(word) + 1)
		if (!mt_shell_word_add(word, out, out_bytes))
			return false;
	return true;
}

bool mt_start_command_read(const struct mt_process *process, char *out, size_t out_bytes)
{
	size_t length = 0;
	char *words = mt_process_read_memory(process->pid, "cmdline", &length);
	bool is_whole = true;

	*out = '\0';
	/* what a program that has written its title over its arguments leaves of them */
	while (words && length > 1 && !words[length - 1] && !words[length - 2])
		length--;
	if (words)
		is_whole = mt_start_command_quote(words, length, out, out_bytes);
	free(words);
	return is_whole;
}

void mt_start_command_say(const struct mt_process *process, char *out, size_t out_bytes)
{
	bool is_whole = mt_start_command_read(process, out, out_bytes - strlen(CUT));

	if (!*out)
		(void)mt_shell_word_add(process->comm, out, out_bytes);
	if (!is_whole)
		strcat(out, CUT);
}
