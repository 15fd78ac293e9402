#include "ctl/process/start_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/output/text.h"

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

/* ---- shell word ---- */

/*  */

/* of one byte: \xff */
#define LONGEST_ESCAPE 4

static bool is_bare(const char *word)
{
	return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_./:=,@%+-")] == '\0';
}

static bool is_printable(const char *word)
{
	size_t bytes = strlen(word) + 1;
	char *clean = mt_error_check_memory(malloc(bytes));
	bool is_same;

	mt_text_clean_utf8(word, clean, bytes);
	is_same = strcmp(word, clean) == 0;
	free(clean);
	return is_same;
}

static char *put_quoted(const char *word, char *out)
{
	*out++ = '\'';
	for (; *word; word++)
		if (*word == '\'')
			out = stpcpy(out, "'\\''");
		else
			*out++ = *word;
	return stpcpy(out, "'");
}

static char *put_escaped(const char *word, char *out)
{
	out = stpcpy(out, "$'");
	for (; *word; word++)
		if (*word == '\n')
			out = stpcpy(out, "\\n");
		else if (*word == '\t')
			out = stpcpy(out, "\\t");
		else if (*word < ' ' || *word > '~')
			out += sprintf(out, "\\x%02x", (unsigned char)*word);
		else
			out += sprintf(out, *word == '\'' || *word == '\\' ? "\\%c" : "%c", *word);
	return stpcpy(out, "'");
}

bool mt_shell_word_add(const char *word, char *out, size_t out_bytes)
{
	size_t used = strlen(out), blank = used > 0, length;
	char *quoted = mt_error_check_memory(malloc(LONGEST_ESCAPE * strlen(word) + sizeof("$''")));
	bool fits;

	if (is_bare(word))
		strcpy(quoted, word);
	else if (is_printable(word))
		put_quoted(word, quoted);
	else
		put_escaped(word, quoted);
	length = strlen(quoted);
	fits = used + blank + length < out_bytes;
	if (fits)
		sprintf(out + used, "%s%s", blank ? " " : "", quoted);
	free(quoted);
	return fits;
}
