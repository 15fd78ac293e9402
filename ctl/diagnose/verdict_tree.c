/* ctl/diagnose/verdict_tree.c -- findings in the sum of a tree. It counts processes that begin
 * while the others are sampled, and those without the shim. */
#include <math.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define GROWTH_MIN_PER_S  16384.0 /* 1.4 GB a day */
#define UNEXPLAINED_SHARE 0.34    /* of the growth of the sum */
#define RISE_SHARE        0.10    /* of the sum: so much more at the end is a rise */
#define NEEDED_MIN_S      300.0
#define NEEDED_MORE       3 /* times what was sampled now */

static struct mt_trend trend_of_sum(const struct mt_diagnose_tree *tree)
{
	struct mt_trend_point points[MT_DIAGNOSE_TREE_POINTS];
	const struct mt_trend_series series = {
		.points = points, .count = tree->points_count, .least_min = (double)MT_MIB};

	for (size_t i = 0; i < tree->points_count; i++)
		points[i] = (struct mt_trend_point){tree->points[i].at_s,
						    (double)tree->points[i].pss_bytes};
	return mt_trend_find(&series);
}

/* Whether a process has ended that looked like a leak until then. */
static bool any_grew_and_ended(struct mt_facts *const *facts, struct mt_diagnosis *const *diagnoses,
			       size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 1; facts[i]->ended && k < diagnoses[i]->count; k++)
			if (diagnoses[i]->list[k].growth_per_s > 0)
				return true;
	return false;
}

/* Whether the sum may grow, although its trend is not that of growth. */
static bool may_grow(const struct mt_diagnose_tree *tree, const struct mt_trend *trend,
		     bool any_ended)
{
	const struct mt_diagnose_tree_point *first = &tree->points[0],
					    *last = &tree->points[tree->points_count - 1];
	double rise = (double)last->pss_bytes - (double)first->pss_bytes;

	if (trend->shape == MT_TREND_FEW)
		return rise >= fmax(RISE_SHARE * (double)last->pss_bytes, (double)MT_MIB);
	if (trend->shape != MT_TREND_UNDECIDED)
		return false;
	return any_ended || (trend->slope_low > 0 && trend->growth >= RISE_SHARE * trend->last &&
			     last->processes_count > first->processes_count);
}

static void show_tree(const struct mt_facts *root, const struct mt_trend *trend,
		      struct mt_finding *finding)
{
	const struct mt_diagnose_tree *tree = &root->tree;
	const struct mt_diagnose_tree_point *first = &tree->points[0],
					    *last = &tree->points[tree->points_count - 1];

	finding->is_of_tree = true;
	mt_finding_trend(finding, "all together (PSS)", "tree_pss", trend);
	mt_finding_show(finding, "PSS", "tree_pss_bytes", (double)last->pss_bytes, "%s to %s",
			mt_text_bytes(first->pss_bytes).text, mt_text_bytes(last->pss_bytes).text);
	mt_finding_show(finding, "processes", "tree_processes_count", (double)last->processes_count,
			"%s to %s", mt_text_count(first->processes_count).text,
			mt_text_count(last->processes_count).text);
	if (last->processes_count > first->processes_count)
		mt_finding_advise(finding,
				  "See which of them should have ended: mtctl ps --tree %d.",
				  (int)root->process.pid);
}

/* Moves the finding that was added last: before those of the root if it weighs more, and in the
 * place of "healthy". */
static void insert_last(struct mt_diagnosis *in)
{
	struct mt_finding last = in->list[--in->count];
	const struct mt_finding *first = &in->list[0];
	bool replaces = first->verdict == MT_VERDICT_HEALTHY,
	     leads = last.bytes * last.confidence > first->bytes * first->confidence;
	size_t at = 0;

	if (!replaces) {
		while (!leads && at < in->count && in->list[at].verdict != MT_VERDICT_NONE)
			at++;
		memmove(&in->list[at + 1], &in->list[at], (in->count - at) * sizeof(in->list[0]));
		in->count++;
	}
	in->list[at] = last;
}

static void add_growth(const struct mt_facts *root, const struct mt_trend *trend, double rest,
		       struct mt_diagnosis *out)
{
	double confidence =
		trend->confidence * mt_diagnose_build_up_trust(root, trend, trend->last);
	bool is_sure = confidence >= MT_DIAGNOSE_CONFIDENT;
	struct mt_short_text time = mt_diagnose_time(NEEDED_MIN_S), rate = mt_diagnose_rate(rest);
	struct mt_finding *finding =
		is_sure ? mt_finding_add(out, MT_VERDICT_GROWTH, rest * MT_DIAGNOSE_HORIZON_S,
					 confidence,
					 "the processes of the tree grow together by %s that the "
					 "growth of none of them explains",
					 rate.text)
			: mt_finding_add(out, MT_VERDICT_UNKNOWN, rest * MT_DIAGNOSE_HORIZON_S, 0.9,
					 "the processes of the tree grow together by %s, as in a "
					 "program that is still starting them, use --for %s",
					 rate.text, time.text);

	finding->growth_per_s = rest;
	show_tree(root, trend, finding);
	if (!is_sure)
		mt_finding_advise(finding,
				  "Run mtctl diagnose %d --tree --for %s: growth that goes on for "
				  "so long is not of a program that starts.",
				  (int)root->process.pid, time.text);
	insert_last(out);
}

static void add_doubt(const struct mt_facts *root, const struct mt_trend *trend, bool any_ended,
		      struct mt_diagnosis *out)
{
	struct mt_short_text time =
		mt_diagnose_time(fmax(trend->needed_s, fmax(NEEDED_MORE * root->duration_s, 60)));
	bool is_over = root->duration_s >= MT_DIAGNOSE_LOOK_GIVEN_S;
	struct mt_finding *finding =
		mt_finding_add(out, MT_VERDICT_UNKNOWN, fmax(trend->growth, (double)MT_MIB), 0.9,
			       "%s, and what the processes hold together tells not whether it "
			       "comes back%s%s",
			       any_ended ? "a process of the tree grew until it ended"
					 : "the processes of the tree hold more than at the start",
			       is_over ? "" : ", use --for ", is_over ? "" : time.text);

	show_tree(root, trend, finding);
	if (is_over)
		mt_finding_advise(finding,
				  "Record the tree for an hour and more, and look at its lows: "
				  "mtctl record --pid %d -o long.jsonl; mtctl plot long.jsonl.",
				  (int)root->process.pid);
	else
		mt_finding_advise(finding,
				  "Run mtctl diagnose %d --tree --for %s: what comes back does so "
				  "within that time, and a leak goes on.",
				  (int)root->process.pid, time.text);
	insert_last(out);
}

void mt_diagnose_decide_tree(struct mt_facts *const *facts, struct mt_diagnosis *const *diagnoses,
			     size_t count)
{
	const struct mt_diagnose_tree *tree = &facts[0]->tree;
	struct mt_trend *trend = &diagnoses[0]->tree;
	bool any_ended = any_grew_and_ended(facts, diagnoses, count);
	double rest;

	if (!tree->points_count || facts[0]->ended)
		return;
	*trend = trend_of_sum(tree);
	if (trend->shape != MT_TREND_GROWS) {
		if (may_grow(tree, trend, any_ended))
			add_doubt(facts[0], trend, any_ended, diagnoses[0]);
		return;
	}
	rest = trend->slope; /* less what the findings of the single processes explain */
	for (size_t i = 0; i < count; i++)
		if (diagnoses[i]->count &&
		    diagnoses[i]->list[0].confidence >= MT_DIAGNOSE_CONFIDENT)
			rest -= diagnoses[i]->list[0].growth_per_s;
	if (rest >= UNEXPLAINED_SHARE * trend->slope && rest >= GROWTH_MIN_PER_S)
		add_growth(facts[0], trend, rest, diagnoses[0]);
}
