#include "ctl/channel/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/stats_dir.h"
#include "ctl/output/text.h"

#define WORD_MAX sizeof(((struct mt_process *)NULL)->command)

/* Interpreters by the start of their names, and the options whose next word is no script. What
 * follows `-jar` of java is a word like a script. */
static const struct interpreter {
	const char *name;
	const char *with_value; /* letters of options that have a value of their own */
	const char *no_script;  /* letters of options after which no script follows */
	const char *module;     /* letters of options whose value names what runs */
	const char *words;      /* whole options that have a value of their own, between blanks */
} interpreters[] = {
	{"python", "WX", "c", "m", ""},
	{"pypy", "WX", "c", "m", ""},
	{"ruby", "CIrE", "e", "", ""},
	{"perl", "I", "eE", "", ""},
	{"node", "rC", "ep", "", " --require --import --loader --experimental-loader "},
	{"php", "cdzSt", "r", "", ""},
	{"java", "", "", "",
	 " -cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules "
	 "--add-opens --add-exports --add-reads --limit-modules "},
	{"bash", "Oo", "c", "", ""},
	{"sh", "o", "c", "", ""},
	{"dash", "o", "c", "", ""},
};

/* Reads the next word of a command line, of which blanks separate the words. Returns the text after
 * it, NULL if there is none. */
static const char *next_word(const char *text, char *out)
{
	size_t length;

	text += strspn(text, " ");
	length = strcspn(text, " ");
	snprintf(out, WORD_MAX, "%.*s", (int)length, text);
	return length ? text + length : NULL;
}

static const struct interpreter *interpreter_of(const char *word)
{
	const char *name = mt_text_basename(word);

	for (size_t i = 0; i < sizeof(interpreters) / sizeof(interpreters[0]); i++) {
		size_t length = strlen(interpreters[i].name);

		/* "python3.11", but not "shred" */
		if (strncmp(name, interpreters[i].name, length) == 0 &&
		    strspn(name + length, "0123456789.") == strlen(name + length))
			return &interpreters[i];
	}
	return NULL;
}

static bool has_value(const struct interpreter *interpreter, const char *option)
{
	char between[WORD_MAX + 3];

	snprintf(between, sizeof(between), " %s ", option);
	return (option[1] && !option[2] && strchr(interpreter->with_value, option[1])) ||
	       strstr(interpreter->words, between);
}

/* Finds the script of a command line. Writes its name without the folder to `out`, of WORD_MAX
 * bytes, and returns the text after it. Returns NULL if there is none. */
static const char *find_script(const char *command, char *out)
{
	const struct interpreter *interpreter;
	char word[WORD_MAX];
	const char *rest = next_word(command, word);

	interpreter = rest ? interpreter_of(word) : NULL;
	while (interpreter && rest && (rest = next_word(rest, word))) {
		char letter = word[0] == '-' ? word[1] : '\0';

		if (strcmp(word, "-") == 0) /* from stdin */
			return NULL;
		if (!letter || strchr(interpreter->module, letter)) {
			if (letter && !word[2] && !(rest = next_word(rest, word)))
				return NULL;
			snprintf(out, WORD_MAX, "%s",
				 mt_text_basename(letter && word[0] == '-' ? word + 2 : word));
			return *out ? rest : NULL;
		}
		if (strchr(interpreter->no_script, letter))
			return NULL;
		if (has_value(interpreter, word))
			rest = next_word(rest, word);
	}
	return NULL;
}

void mt_process_script(const char *command, char *out, size_t out_bytes)
{
	char name[WORD_MAX];

	snprintf(out, out_bytes, "%s", find_script(command, name) ? name : "");
}

void mt_process_title(const char *command, char *out, size_t out_bytes)
{
	char name[WORD_MAX], word[WORD_MAX];
	const char *rest = find_script(command, name);

	if (!rest) {
		rest = next_word(command, word);
		snprintf(name, sizeof(name), "%s", mt_text_basename(word));
	}
	snprintf(out, out_bytes, "%s%s", rest && *name ? name : command, rest && *name ? rest : "");
}

bool mt_process_has_name(const struct mt_process *process, const char *name)
{
	char word[WORD_MAX];

	if (strcmp(process->comm, name) == 0)
		return true;
	if (next_word(process->command, word) && strcmp(mt_text_basename(word), name) == 0)
		return true;
	mt_process_script(process->command, word, sizeof(word));
	return strcmp(word, name) == 0;
}

static void find_nearest(const char *name, const struct mt_process *list, size_t count,
			 struct mt_error_reason *out)
{
	char(*scripts)[WORD_MAX] = mt_error_check_memory(calloc(count + 1, sizeof(*scripts)));
	const char **names = mt_error_check_memory(calloc(2 * count + 1, sizeof(*names)));
	const char *nearest;
	size_t names_count = 0;

	for (size_t i = 0; i < count; i++) {
		if (!list[i].shimmed)
			continue;
		mt_process_script(list[i].command, scripts[i], sizeof(scripts[i]));
		names[names_count++] = list[i].comm;
		if (*scripts[i])
			names[names_count++] = scripts[i];
	}
	nearest = mt_text_nearest(name, names, names_count);
	snprintf(out->text, sizeof(out->text), "%s", nearest ? nearest : "");
	free(names);
	free(scripts);
}

size_t mt_process_find_named(const char *name, struct mt_process **out,
			     struct mt_error_reason *out_nearest)
{
	size_t count = mt_process_read_all(out), kept = 0;
	struct mt_process *list = *out;
	bool any_shimmed = false;

	for (size_t i = 0; i < count; i++) {
		list[i].shimmed = list[i].shimmed && mt_stats_dir_is_shown(&list[i]);
		any_shimmed |= list[i].shimmed && mt_process_has_name(&list[i], name);
	}
	out_nearest->text[0] = '\0';
	find_nearest(name, list, count, out_nearest);
	for (size_t i = 0; i < count; i++)
		if (list[i].shimmed >= any_shimmed && list[i].pid != getpid() &&
		    mt_process_may_probe(&list[i]) && mt_process_has_name(&list[i], name))
			list[kept++] = list[i];
	return kept;
}
