/* ctl/diagnose/overrides.c -- what the environment of a process does to a setting that an advice
 * names: it sets it already, or another variable overrides it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

/* A variable that the user has set, and the setting that has no effect then. part: a text in the
 * values that override; "" for any value but an empty one. */
static const struct {
	const char *setting, *variable, *part;
} overriding[] = {
	{"MT_PYTHON_MALLOC", "PYTHONMALLOC", ""},
	{"MT_PYTHON_MALLOC", "PYTHONDEVMODE", ""},
	{"MT_ARENA_MAX", "MT_MALLOC_CONF", "narenas"},
	{"MT_ARENA_MAX", "MALLOC_CONF", "narenas"},
};

const char *mt_diagnose_variable(const struct mt_facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->variables_count; i++)
		if (strcmp(facts->variables[i].name, name) == 0)
			return facts->variables[i].value;
	return NULL;
}

/* Whether the text has the name as a whole word. */
static bool names(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
		char before = at == text ? ' ' : at[-1], after = at[length];

		if (!isalnum((unsigned char)before) && before != '_' &&
		    !isalnum((unsigned char)after) && after != '_')
			return true;
	}
	return false;
}

/* Whether the advice is to take the variable out. */
static bool says_without(const char *advice, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "without %.40s", name);
	return strstr(advice, text) != NULL;
}

static void append(char *advice, size_t advice_bytes, const char *variable, const char *value,
		   bool overrides)
{
	char note[160];
	size_t length = strlen(advice), needed;

	snprintf(note, sizeof(note),
		 overrides ? " (%.40s=%.40s in its environment overrides that: take it out)."
			   : " (its environment has %.40s=%.40s: change it there).",
		 variable, value);
	needed = strlen(note);
	if (length && advice[length - 1] == '.')
		length--;
	if (length + needed + 1 > advice_bytes) /* the note counts for more than the end */
		length = advice_bytes - needed - 1;
	strcpy(advice + length, note);
}

static void note(const struct mt_facts *facts, char *advice, size_t advice_bytes)
{
	for (size_t i = 0; i < sizeof(overriding) / sizeof(overriding[0]); i++) {
		const char *value = mt_diagnose_variable(facts, overriding[i].variable);

		if (!value || !*value || !names(advice, overriding[i].setting) ||
		    says_without(advice, overriding[i].variable) ||
		    !strstr(value, overriding[i].part))
			continue;
		append(advice, advice_bytes, overriding[i].variable, value, true);
		return;
	}
	for (size_t i = 0; i < facts->variables_count; i++) {
		const struct mt_diagnose_variable *variable = &facts->variables[i];

		if (!names(advice, variable->name) || says_without(advice, variable->name))
			continue;
		append(advice, advice_bytes, variable->name, variable->value, false);
		return;
	}
}

void mt_diagnose_note_overrides(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	for (size_t i = 0; i < out->count; i++)
		for (size_t k = 0; k < out->list[i].advice_count; k++)
			note(facts, out->list[i].advice[k], sizeof(out->list[i].advice[k]));
}
