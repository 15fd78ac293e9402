/* ctl/diagnose/rules.c -- the table of rules: runs those that a command shows, and ranks what one
 * look shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

enum needs { NEEDS_ANY, NEEDS_SAMPLE, NEEDS_AWAKE, NEEDS_CUDA };

/* rules.def names them without a prefix. */
enum {
	CAUSE = MT_SHOWN_CAUSE,
	GLANCE = MT_SHOWN_GLANCE,
	PROCESS = MT_SHOWN_PROCESS,
	START = MT_SHOWN_START,
	MACHINE = MT_SHOWN_MACHINE,
	SERVER = MT_SHOWN_SERVER,
	CLIENT = MT_SHOWN_CLIENT,
	OOM = MT_SHOWN_OOM
};

static const struct rule {
	void (*judge)(const struct mt_facts *facts, struct mt_diagnosis *out);
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

/* Puts the process id into a command, so that it can be copied. */
static void put_pid(char *advice, size_t advice_bytes, pid_t pid)
{
	char rest[sizeof(((struct mt_finding *)0)->advice[0])], *at = strstr(advice, "PID");

	if (!at || !pid)
		return;
	snprintf(rest, sizeof(rest), "%s", at + strlen("PID"));
	snprintf(at, advice_bytes - (size_t)(at - advice), "%d%s", (int)pid, rest);
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
	/* its checks are the same for each process */
	bool is_doctor = shown & (PROCESS | START | MACHINE);

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		size_t before = out->count;

		if (!(rules[i].shown & shown) || !has(facts, rules[i].needs))
			continue;
		rules[i].judge(facts, out);
		if (out->count > before && is_second(out, &out->list[out->count - 1]))
			out->count--;
		for (size_t k = is_doctor ? out->count : before; k < out->count; k++)
			for (size_t j = 0; j < out->list[k].advice_count; j++)
				put_pid(out->list[k].advice[j], sizeof(out->list[k].advice[j]),
					facts->process.pid);
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

void mt_glance_judge(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	out->count = 0;
	mt_diagnose_find_trends(facts, out);
	mt_rules_run(facts, MT_SHOWN_CAUSE | MT_SHOWN_GLANCE, out);
	mt_findings_rank(out, 0);
	mt_diagnose_note_overrides(facts, out);
}

void mt_findings_with_setting(struct mt_diagnosis *in)
{
	size_t kept = 0;

	for (size_t i = 0; i < in->count; i++)
		if (*in->list[i].environment)
			in->list[kept++] = in->list[i];
	in->count = kept;
}
