/* ctl/diagnose/finding.c -- a finding and the list of findings; what the environment of a process
 * does to a setting that an advice names. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

const char *mt_diagnose_word(enum mt_verdict verdict)
{
	static const char *const words[] = {
#define X(name, code, word, help) word,
		MT_VERDICTS(X)
#undef X
	};

	return words[verdict];
}

int mt_diagnose_exit_code(enum mt_verdict verdict)
{
	static const int codes[] = {
#define X(name, code, word, help) code,
		MT_VERDICTS(X)
#undef X
	};

	return codes[verdict];
}

/* ---- findings ---- */

static struct mt_finding *append(struct mt_diagnosis *in)
{
	if (in->count == in->room) {
		in->room = in->room ? 2 * in->room : 16;
		in->list = mt_error_check_memory(realloc(in->list, in->room * sizeof(in->list[0])));
	}
	in->list[in->count] = (struct mt_finding){.verdict = MT_VERDICT_NONE};
	return &in->list[in->count++];
}

void mt_diagnosis_free(struct mt_diagnosis *diagnosis)
{
	free(diagnosis->list);
	diagnosis->list = NULL;
	diagnosis->count = diagnosis->room = 0;
}

struct mt_finding *mt_finding_add(struct mt_diagnosis *in, enum mt_verdict verdict, double bytes,
				  double confidence, const char *text, ...)
{
	struct mt_finding *finding = append(in);
	va_list arguments;

	finding->state = MT_WARN;
	finding->verdict = verdict;
	finding->bytes = bytes;
	finding->confidence = fmin(confidence, 0.99);
	snprintf(finding->id, sizeof(finding->id), "%s", mt_diagnose_word(verdict));
	va_start(arguments, text);
	vsnprintf(finding->text, sizeof(finding->text), text, arguments);
	va_end(arguments);
	return finding;
}

struct mt_finding *mt_finding_note(struct mt_diagnosis *in, enum mt_state state, const char *id,
				   const char *advice, const char *text, ...)
{
	struct mt_finding *finding = append(in);
	va_list arguments;

	finding->state = state;
	finding->confidence = 0.99;
	snprintf(finding->id, sizeof(finding->id), "%s", id);
	va_start(arguments, text);
	vsnprintf(finding->text, sizeof(finding->text), text, arguments);
	va_end(arguments);
	/* paths and values of the environment may be anything */
	mt_text_clean(finding->text, sizeof(finding->text));
	if (advice && *advice && state != MT_OK)
		mt_finding_advise(finding, "%s", advice);
	return finding;
}

void mt_finding_start_with(struct mt_finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->environment, sizeof(finding->environment), format, arguments);
	va_end(arguments);
}

void mt_finding_name(struct mt_finding *finding, const char *topic)
{
	snprintf(finding->id, sizeof(finding->id), "%s", topic);
}

const char *mt_finding_word(const struct mt_finding *finding)
{
	return finding->verdict == MT_VERDICT_NONE ? finding->id
						   : mt_diagnose_word(finding->verdict);
}

void mt_finding_set(struct mt_finding *finding, const struct mt_facts *facts, const char *name,
		    const char *value)
{
	mt_finding_start_with(finding, "MT_%.40s=%.40s", name, value);
	for (char *letter = finding->environment; *letter != '='; letter++)
		if (*letter >= 'a' && *letter <= 'z')
			*letter = (char)(*letter - 'a' + 'A');
	snprintf(finding->command, sizeof(finding->command), "mtctl set %d %.40s=%.40s",
		 (int)facts->process.pid, name, value);
}

void mt_finding_show(struct mt_finding *finding, const char *label, const char *name, double value,
		     const char *format, ...)
{
	struct mt_diagnose_evidence *line = &finding->evidence[finding->evidence_count];
	va_list arguments;

	if (finding->evidence_count == MT_DIAGNOSE_EVIDENCE)
		return;
	finding->evidence_count++;
	line->value = value;
	snprintf(line->label, sizeof(line->label), "%s", label);
	snprintf(line->name, sizeof(line->name), "%s", name);
	va_start(arguments, format);
	vsnprintf(line->text, sizeof(line->text), format, arguments);
	va_end(arguments);
}

void mt_finding_bytes(struct mt_finding *finding, const char *label, const char *name,
		      uint64_t bytes)
{
	mt_finding_show(finding, label, name, (double)bytes, "%s", mt_text_bytes(bytes).text);
}

void mt_finding_advise(struct mt_finding *finding, const char *format, ...)
{
	va_list arguments;

	if (finding->advice_count == MT_DIAGNOSE_ADVICE)
		return;
	va_start(arguments, format);
	vsnprintf(finding->advice[finding->advice_count], sizeof(finding->advice[0]), format,
		  arguments);
	va_end(arguments);
	finding->advice_count++;
}

struct mt_short_text mt_diagnose_rate(double bytes_per_s)
{
	struct mt_short_text figure;
	double size = fabs(bytes_per_s);

	if (size < 0.095 * (double)MT_MIB)
		snprintf(figure.text, sizeof(figure.text), "%.1f kB/s", bytes_per_s / 1024);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f MB/s",
			 bytes_per_s / (double)MT_MIB);
	return figure;
}

void mt_finding_trend(struct mt_finding *finding, const char *label, const char *name,
		      const struct mt_trend *trend)
{
	char key[56];

	snprintf(key, sizeof(key), "%.32s_slope_bytes_per_s", name);
	mt_finding_show(finding, label, key, trend->slope,
			"%s (95 %%: %s to %s), R2 %.2f, up in %zu of %zu parts of %.0f s%s",
			mt_diagnose_rate(trend->slope).text,
			mt_diagnose_rate(trend->slope_low).text,
			mt_diagnose_rate(trend->slope_high).text, trend->r_squared,
			trend->grown_parts, trend->parts, trend->seconds,
			trend->rounds ? ", by the lowest point of each round" : "");
}

uint64_t mt_diagnose_minimum(const struct mt_facts *facts, size_t part, size_t offset)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = facts->samples_count - (facts->samples_count + part - 1) / part;
	     i < facts->samples_count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&facts->samples[i] + offset, sizeof(value));
		least = value < least ? value : least;
	}
	return least == UINT64_MAX ? 0 : least;
}

bool mt_finding_may_join(const char *conf)
{
	static const char harmless[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:,.-";

	return strlen(conf) < sizeof(((struct mt_stats_setting *)0)->value) - 1 &&
	       !conf[strspn(conf, harmless)];
}

/* ---- settings that are overridden ---- */

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

const char *mt_facts_variable(const struct mt_facts *facts, const char *name)
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

static void append_note(char *advice, size_t advice_bytes, const char *variable, const char *value,
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
		const char *value = mt_facts_variable(facts, overriding[i].variable);

		if (!value || !*value || !names(advice, overriding[i].setting) ||
		    says_without(advice, overriding[i].variable) ||
		    !strstr(value, overriding[i].part))
			continue;
		append_note(advice, advice_bytes, overriding[i].variable, value, true);
		return;
	}
	for (size_t i = 0; i < facts->variables_count; i++) {
		const struct mt_diagnose_variable *variable = &facts->variables[i];

		if (!names(advice, variable->name) || says_without(advice, variable->name))
			continue;
		append_note(advice, advice_bytes, variable->name, variable->value, false);
		return;
	}
}

void mt_diagnose_note_overrides(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	for (size_t i = 0; i < out->count; i++)
		for (size_t k = 0; k < out->list[i].advice_count; k++)
			note(facts, out->list[i].advice[k], sizeof(out->list[i].advice[k]));
}
