/* ctl/diagnose/findings.c -- the list of findings; what the environment of a process does to a
 * setting that an advice names; the table of rules: runs those that a command shows, and ranks what
 * one look shows. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

static const struct {
	const char *word;
	int exit_code;
} verdicts[] = {
#define X(name, code, word, help) {word, code},
	MT_VERDICTS(X)
#undef X
};

const char *mt_diagnose_word(enum mt_verdict verdict)
{
	return verdicts[verdict].word;
}

int mt_diagnose_exit_code(enum mt_verdict verdict)
{
	return verdicts[verdict].exit_code;
}

/* ---- findings ---- */

static struct mt_finding *append(struct mt_diagnosis *in)
{
	in->list = mt_error_make_room(in->list, in->count, sizeof(in->list[0]));
	in->list[in->count] = (struct mt_finding){.verdict = MT_VERDICT_NONE};
	return &in->list[in->count++];
}

void mt_diagnosis_free(struct mt_diagnosis *diagnosis)
{
	free(diagnosis->list);
	diagnosis->list = NULL;
	diagnosis->count = 0;
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

__attribute__((format(printf, 3, 4))) static void append_text(char *out, size_t out_bytes,
							      const char *format, ...)
{
	size_t used = strlen(out);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(out + used, out_bytes - used, format, arguments);
	va_end(arguments);
}

void mt_finding_set(struct mt_finding *finding, const struct mt_facts *facts, const char *settings)
{
	char copy[160], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", settings);
	while ((word = strsep(&rest, " "))) {
		bool is_live = islower((unsigned char)*word);

		if (is_live)
			append_text(finding->command, sizeof(finding->command), "%smtctl set %d %s",
				    *finding->command ? "; " : "", (int)facts->process.pid, word);
		for (char *letter = word; is_live && *letter != '='; letter++)
			*letter = (char)toupper((unsigned char)*letter);
		append_text(finding->environment, sizeof(finding->environment), "%s%s%s",
			    *finding->environment ? " " : "", is_live ? "MT_" : "", word);
	}
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
	double size = fabs(bytes_per_s);

	if (size < 0.095 * (double)MT_MIB)
		return mt_text_format("%.1f kB/s", bytes_per_s / 1024);
	return mt_text_format("%.1f MB/s", bytes_per_s / (double)MT_MIB);
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

/* Puts the process id into commands, so that they can be copied. */
static void put_pid(char *advice, size_t advice_bytes, pid_t pid)
{
	char rest[sizeof(((struct mt_finding *)0)->advice[0])], *at = advice;

	while ((at = strstr(at, "PID"))) {
		snprintf(rest, sizeof(rest), "%s", at + strlen("PID"));
		snprintf(at, advice_bytes - (size_t)(at - advice), "%d%s", (int)pid, rest);
	}
}

/* Takes out what takes a living process: that of a recording may have ended. */
static void drop_commands(struct mt_finding *finding)
{
	size_t kept = 0;

	for (size_t k = 0; k < finding->advice_count; k++)
		if (!strstr(finding->advice[k], "PID"))
			memmove(finding->advice[kept++], finding->advice[k],
				sizeof(finding->advice[k]));
	finding->advice_count = kept;
	if (!kept && finding->verdict != MT_VERDICT_HEALTHY)
		mt_finding_advise(finding, "Look at a running process: mtctl diagnose PID; of a "
					   "Python program also mtctl sites PID --python.");
}

void mt_diagnose_end_advice(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	for (size_t i = 0; i < out->count; i++) {
		if (facts->source != MT_FACTS_LIVE) {
			drop_commands(&out->list[i]);
			continue;
		}
		for (size_t k = 0; k < out->list[i].advice_count; k++) {
			char *advice = out->list[i].advice[k];

			put_pid(advice, sizeof(out->list[i].advice[k]), facts->process.pid);
			note(facts, advice, sizeof(out->list[i].advice[k]));
		}
	}
}

/* ---- the rules ---- */

enum needs { NEEDS_ANY, NEEDS_SAMPLE, NEEDS_AWAKE, NEEDS_CUDA };

/* rules.def names them without a prefix. */
enum {
	CAUSE = MT_SHOWN_CAUSE,
	NOW = MT_SHOWN_NOW,
	PROCESS = MT_SHOWN_PROCESS,
	START = MT_SHOWN_START,
	MACHINE = MT_SHOWN_MACHINE
};

static const struct rule {
	void (*run)(const struct mt_facts *facts, struct mt_diagnosis *out);
	enum needs needs;
	unsigned shown;
} rules[] = {
#define X(name, needs, shown) {mt_rule_##name, NEEDS_##needs, shown},
	MT_RULES(X)
#undef X
};

static bool has(const struct mt_facts *facts, enum needs needs)
{
	bool is_awake = facts->awake && facts->samples_count;

	return needs == NEEDS_ANY || (needs == NEEDS_SAMPLE && facts->samples_count) ||
	       (needs == NEEDS_AWAKE && is_awake) ||
	       (needs == NEEDS_CUDA && is_awake && mt_stats_file_uses_cuda(&facts->last.head));
}

/* Of several settings with one id the first stays. */
static bool is_second(const struct mt_diagnosis *in, const struct mt_finding *finding)
{
	for (const struct mt_finding *other = in->list; *finding->environment && other < finding;
	     other++)
		if (*other->environment && strcmp(other->id, finding->id) == 0)
			return true;
	return false;
}

void mt_rules_run(const struct mt_facts *facts, unsigned shown, struct mt_diagnosis *out)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		size_t before = out->count;

		if (!(rules[i].shown & shown) || !has(facts, rules[i].needs))
			continue;
		rules[i].run(facts, out);
		for (size_t k = before; k < out->count; k++)
			out->list[k].shown = rules[i].shown;
		if (out->count > before && is_second(out, &out->list[out->count - 1]))
			out->count--;
	}
}

/* ---- one look ---- */

static int by_state_and_weight(const void *a, const void *b)
{
	const struct mt_finding *x = a, *y = b;
	double p = x->bytes * x->confidence, q = y->bytes * y->confidence;

	return x->state != y->state ? (int)y->state - (int)x->state : (p < q) - (p > q);
}

static bool weighs(const struct mt_finding *finding)
{
	return finding->confidence >= MT_DIAGNOSE_CONFIDENT &&
	       finding->verdict != MT_VERDICT_UNKNOWN &&
	       (finding->state == MT_NOTE || finding->state == MT_WARN);
}

void mt_findings_rank(struct mt_diagnosis *in, size_t from)
{
	size_t kept = from;

	for (size_t i = from; i < in->count; i++)
		if (weighs(&in->list[i]))
			in->list[kept++] = in->list[i];
	in->count = kept;
	if (kept > from)
		qsort(in->list + from, kept - from, sizeof(in->list[0]), by_state_and_weight);
}

void mt_findings_of_one_look(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	out->count = 0;
	mt_diagnose_find_trends(facts, out);
	mt_rules_run(facts, MT_SHOWN_CAUSE | MT_SHOWN_NOW, out);
	mt_findings_rank(out, 0);
	mt_diagnose_end_advice(facts, out);
}

void mt_findings_with_setting(struct mt_diagnosis *in)
{
	size_t kept = 0;

	for (size_t i = 0; i < in->count; i++)
		if (*in->list[i].environment)
			in->list[kept++] = in->list[i];
	in->count = kept;
}
