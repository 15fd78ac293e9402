/* ctl/diagnose/report.c -- findings as text and as JSON: the verdict of diagnose with evidence,
 * advice and other findings; the lines of doctor and of checklists. */
#include <stdio.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"

static void print_evidence(const struct mt_finding *finding)
{
	struct mt_table *table = mt_table_new("<  EVIDENCE|<");

	for (size_t i = 0; i < finding->evidence_count; i++) {
		mt_table_addf(table, "  %s", finding->evidence[i].label);
		mt_table_add(table, finding->evidence[i].text);
	}
	putchar('\n');
	mt_table_print(table);
}

static void print_advice(const struct mt_finding *finding)
{
	if (!finding->advice_count)
		return;
	printf("\n%s  WHAT TO DO%s\n", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end());
	for (size_t i = 0; i < finding->advice_count; i++)
		printf("  %zu. %s\n", i + 1, finding->advice[i]);
}

const char *mt_diagnose_confidence_word(double confidence)
{
	return confidence >= MT_DIAGNOSE_SURE        ? "high"
	       : confidence >= MT_DIAGNOSE_CONFIDENT ? "fair"
						     : "low";
}

static void print_others(const struct mt_diagnosis *diagnosis)
{
	if (diagnosis->count < 2)
		return;
	printf("\n%s  ALSO FOUND%s\n", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end());
	for (size_t i = 1; i < diagnosis->count; i++) {
		const struct mt_finding *finding = &diagnosis->list[i];

		printf("  %s: %s", mt_finding_word(finding), finding->text);
		if (finding->verdict != MT_VERDICT_NONE)
			printf(" (confidence %s)",
			       mt_diagnose_confidence_word(finding->confidence));
		putchar('\n');
		if (*finding->environment && finding->verdict == MT_VERDICT_NONE)
			printf("      -> %s\n",
			       *finding->command ? finding->command : finding->environment);
		if (finding->advice_count)
			printf("      -> %s\n", finding->advice[0]);
	}
}

/* One line for each process of a tree. */
static void print_processes(const struct mt_diagnose_report *report)
{
	struct mt_facts *const *facts = report->facts;
	struct mt_diagnosis *const *diagnoses = report->diagnoses;
	const struct mt_process_tree_sums *sums = &facts[0]->tree.last;
	struct mt_table *table = mt_table_new(">  PID|<PROGRAM|>RSS|>LIVE|>CHANGE|<VERDICT");

	for (size_t i = 0; i < report->count; i++) {
		const struct mt_sample *last = mt_facts_last(facts[i]);
		bool gone = facts[i]->ended && diagnoses[i]->list[0].verdict == MT_VERDICT_UNKNOWN;
		const char *word = gone ? "ended" : mt_diagnose_word(diagnoses[i]->list[0].verdict);

		mt_table_addf(table, "%d", (int)facts[i]->process.pid);
		mt_table_add(table, facts[i]->process.comm);
		mt_table_add_bytes(table, true, last->rss_bytes);
		mt_table_add_bytes(table, mt_diagnose_knows_live(facts[i]), last->held_bytes);
		mt_table_add(table, mt_diagnose_rate(diagnoses[i]->rss.slope).text);
		mt_table_addf(table, "%s%s", word,
			      !facts[i]->process.shimmed  ? " (does not carry the shim)"
			      : facts[i]->asleep && !gone ? " (asleep)"
							  : "");
	}
	putchar('\n');
	mt_table_print(table);
	if (facts[0]->tree.known)
		printf("  %s %s together (PSS; %s by RSS, which counts shared pages again): %s "
		       "private, %s shared with their parents, %s copied.\n",
		       mt_text_counted(facts[0]->tree.count, "process holds", "processes hold")
			       .text,
		       mt_text_bytes(sums->pss_bytes).text, mt_text_bytes(sums->rss_bytes).text,
		       mt_text_bytes(sums->private_bytes).text,
		       mt_text_bytes(sums->shared_bytes).text,
		       mt_text_bytes(sums->copied_bytes).text);
}

struct mt_short_text mt_diagnose_history(const struct mt_facts *facts)
{
	double seconds = facts->history_count ? -facts->history[0].at_s : 0;

	return seconds < 1 ? (struct mt_short_text){""}
			   : mt_text_format(", and read the %s before",
					    mt_text_span((uint64_t)(seconds * 1e9)).text);
}

/* How the samples were taken, and how sure the verdict is. */
static void print_sampling(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis)
{
	double seconds = facts->samples_count ? mt_facts_last(facts)->at_s : 0;
	printf("\n  Sampled process %d (%s) %s in %.0f s%s%s", (int)facts->process.pid,
	       facts->process.comm, mt_text_counted(facts->samples_count, "time", "times").text,
	       seconds, facts->interrupted ? " (ended early)" : "",
	       mt_diagnose_history(facts).text);
	if (diagnosis->list[0].verdict != MT_VERDICT_UNKNOWN)
		printf("; confidence in the verdict: %s (%.0f %%)",
		       mt_diagnose_confidence_word(diagnosis->list[0].confidence),
		       diagnosis->list[0].confidence * 100);
	putchar('.');
	if (facts->silent_count && !facts->ended)
		printf("\n  The figures of its heap are old: %s.", mt_facts_silence(facts));
	else if (facts->trim.requested && !facts->trim.done)
		printf("\n  The requested cleanup got no reply: %s.", facts->trim.why_not);
	else if (facts->trim.done && facts->is_python && facts->trim.level == MT_LEVEL_PURGE)
		printf("\n  Python's gc was not asked to collect: --gc does, and stalls the "
		       "program.");
	if (seconds < 20 && facts->awake && !facts->ended &&
	    diagnosis->list[0].verdict != MT_VERDICT_UNKNOWN &&
	    diagnosis->list[0].confidence < MT_DIAGNOSE_SURE)
		printf("\n  Confidence grows up to 20 s of samples: mtctl diagnose %d --for 60s.",
		       (int)facts->process.pid);
	putchar('\n');
}

void mt_finding_print_check(const struct mt_finding *finding)
{
	static const char *const words[] = {"ok", "note", "warn"};
	static const enum mt_colour colours[] = {MT_COLOUR_OK, MT_COLOUR_NOTE, MT_COLOUR_WARN};

	if (finding->state == MT_FACT) {
		printf("      %-11s %s\n", finding->id, finding->text);
		return;
	}
	printf("%s%-4s%s  %s\n", mt_table_colour(colours[finding->state]), words[finding->state],
	       mt_table_colour_end(), finding->text);
	if (finding->advice_count)
		printf("      -> %s\n", finding->advice[0]);
	else if (*finding->environment)
		printf("      -> %s\n",
		       *finding->command ? finding->command : finding->environment);
}

void mt_diagnose_print_text(const struct mt_diagnose_report *report)
{
	const struct mt_facts *facts = report->facts[report->worst];
	const struct mt_diagnosis *diagnosis = report->diagnoses[report->worst];
	const struct mt_finding *first = &diagnosis->list[0];
	enum mt_colour colour = first->verdict == MT_VERDICT_HEALTHY   ? MT_COLOUR_OK
				: first->verdict == MT_VERDICT_UNKNOWN ? MT_COLOUR_NOTE
								       : MT_COLOUR_WARN;

	if (!first->is_headline)
		printf("%s%s%s: ", mt_table_colour(colour), mt_diagnose_word(first->verdict),
		       mt_table_colour_end());
	if (report->count > 1 && first->verdict != MT_VERDICT_COPY_ON_WRITE && !first->is_of_tree)
		printf("process %d (%s): ", (int)facts->process.pid, facts->process.comm);
	puts(first->text);
	print_evidence(first);
	print_advice(first);
	print_others(diagnosis);
	if (report->count > 1)
		print_processes(report);
	print_sampling(facts, diagnosis);
}

/* ---- JSON: names of values end with their unit ---- */

static json_t *cause_json(const struct mt_finding *finding)
{
	json_t *object = json_object(), *figures = json_object(), *evidence = json_array(),
	       *advice = json_array();

	mt_json_set_text(object, "verdict", mt_diagnose_word(finding->verdict));
	mt_json_set(object, "exit_code", json_integer(mt_diagnose_exit_code(finding->verdict)));
	mt_json_set_text(object, "title", finding->text);
	mt_json_set_u64(object, "explained_bytes", mt_text_round_u64(finding->bytes));
	mt_json_set(object, "confidence", json_real(finding->confidence));
	mt_json_set(object, "explained_growth_bytes_per_s", json_real(finding->growth_per_s));
	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct mt_diagnose_evidence *line = &finding->evidence[i];
		json_t *pair = mt_json_append_object(evidence);

		mt_json_set(figures, line->name, json_real(line->value));
		mt_json_set_text(pair, "label", line->label);
		mt_json_set_text(pair, "text", line->text);
	}
	for (size_t i = 0; i < finding->advice_count; i++)
		mt_json_append(advice, json_string(finding->advice[i]));
	mt_json_set(object, "figures", figures);
	mt_json_set(object, "evidence", evidence);
	mt_json_set(object, "advice", advice);
	return object;
}

json_t *mt_finding_json(const struct mt_finding *finding)
{
	static const char *const words[] = {"ok", "note", "warn"};
	json_t *object = json_object();

	if (finding->state != MT_FACT) {
		mt_json_set_text(object, "finding", words[finding->state]);
		mt_json_set_text_or_null(object, "advice",
					 finding->advice_count ? finding->advice[0] : "");
	}
	mt_json_set_text(object, "text", finding->text);
	return object;
}

json_t *mt_findings_json(const struct mt_diagnosis *of, size_t from)
{
	json_t *array = json_array();

	for (size_t i = from; i < of->count; i++) {
		const struct mt_finding *finding = &of->list[i];
		json_t *object = mt_finding_json(finding);
		bool is_cause = finding->verdict != MT_VERDICT_NONE;

		mt_json_set_text(object, "id", finding->id);
		mt_json_set_text_or_null(object, "verdict",
					 is_cause ? mt_finding_word(finding) : "");
		mt_json_set_text_or_null(object, "environment", finding->environment);
		mt_json_set_text_or_null(object, "command", finding->command);
		mt_json_append(array, object);
	}
	return array;
}

static json_t *trend_json(const struct mt_trend *trend)
{
	json_t *object = json_object();

	mt_json_set_text(object, "shape", mt_trend_word(trend->shape));
	mt_json_set(object, "slope_bytes_per_s", json_real(trend->slope));
	mt_json_set(object, "slope_low_bytes_per_s", json_real(trend->slope_low));
	mt_json_set(object, "slope_high_bytes_per_s", json_real(trend->slope_high));
	mt_json_set(object, "r_squared", json_real(trend->r_squared));
	mt_json_set(object, "growth_bytes", json_real(trend->growth));
	mt_json_set(object, "lowest_bytes", json_real(trend->lowest));
	mt_json_set(object, "highest_bytes", json_real(trend->highest));
	mt_json_set(object, "last_bytes", json_real(trend->last));
	mt_json_set(object, "seen_s", json_real(trend->seconds));
	mt_json_set(object, "confidence", json_real(trend->confidence));
	mt_json_set_text_or_null(object, "doubt", mt_trend_doubt_word(trend->doubt));
	mt_json_set(object, "judged_s", json_real(trend->decided_s));
	mt_json_set(object, "period_s", json_real(trend->period_s));
	mt_json_set(object, "needed_s", json_real(trend->needed_s));
	mt_json_set_bool(object, "rounds_marked", trend->rounds_marked);
	mt_json_set(object, "points_count", json_integer((json_int_t)trend->points));
	mt_json_set(object, "rounds_count", json_integer((json_int_t)trend->rounds));
	mt_json_set(object, "grown_parts_count", json_integer((json_int_t)trend->grown_parts));
	mt_json_set(object, "parts_count", json_integer((json_int_t)trend->parts));
	return object;
}

static json_t *trends_json(const struct mt_diagnosis *diagnosis)
{
	json_t *object = json_object();

#define X(name, figure, in_history) mt_json_set(object, #name, trend_json(&diagnosis->name));
	MT_DIAGNOSE_TRENDS(X)
#undef X
	return object;
}

/* What the allocator does not count is null. Figures below 0 are 0. */
static json_t *sample_json(const struct mt_facts *facts, const struct mt_sample *sample)
{
	static const char *const of_heap[] = {"live_bytes",  "idle_bytes",    "dirty_bytes",
					      "slack_bytes", "outside_bytes", "held_bytes",
					      "other_bytes"};
	json_t *object = json_object();

#define X(name) mt_json_set_u64(object, #name, (int64_t)sample->name < 0 ? 0 : sample->name);
	MT_DIAGNOSE_FIELDS(X)
#undef X
	for (size_t i = 0; !mt_diagnose_knows_live(facts) && i < sizeof(of_heap) / sizeof(*of_heap);
	     i++)
		mt_json_set(object, of_heap[i], json_null());
	return object;
}

static json_t *group_json(const struct mt_diagnose_group *group)
{
	json_t *object;

	if (!group->known)
		return json_null();
	object = json_object();
	mt_json_set_text(object, "directory", group->directory);
	mt_json_set_u64(object, "version", group->is_v1 ? 1 : 2);
	mt_json_set_u64_if(object, "limit_bytes", group->limit_bytes, group->limit_bytes);
#define X(name, file, key, old_file, old_key) mt_json_set_u64(object, #name, group->name);
	MT_GROUP_FIGURES(X)
#undef X
	return object;
}

static json_t *sites_json(const struct mt_diagnose_sites *sites)
{
	json_t *array = json_array();

	for (size_t i = 0; i < sites->count; i++) {
		json_t *object = mt_json_append_object(array);

		mt_json_set_text(object, "where", sites->list[i].name);
		mt_json_set_u64(object, "growth_bytes", sites->list[i].grown_bytes);
		mt_json_set_u64(object, "growth_count", sites->list[i].grown_count);
		mt_json_set_u64(object, "samples_count", sites->list[i].sampled_count);
	}
	return array;
}

static json_t *process_json(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis)
{
	json_t *root = mt_process_json(&facts->process), *findings = json_array();
	const struct mt_sample *last = mt_facts_last(facts);
	size_t causes = 0;

	mt_json_set_text(root, "verdict", mt_diagnose_word(diagnosis->list[0].verdict));
	mt_json_set(root, "exit_code",
		    json_integer(mt_diagnose_exit_code(diagnosis->list[0].verdict)));
	mt_json_set(root, "confidence", json_real(diagnosis->list[0].confidence));
	mt_json_set_text(root, "title", diagnosis->list[0].text);
	while (causes < diagnosis->count && diagnosis->list[causes].verdict != MT_VERDICT_NONE)
		mt_json_append(findings, cause_json(&diagnosis->list[causes++]));
	mt_json_set(root, "findings", findings);
	mt_json_set(root, "odd", mt_findings_json(diagnosis, causes));
	mt_json_set(root, "last", sample_json(facts, last));
	mt_json_set(root, "trends", trends_json(diagnosis));
	mt_json_set(root, "trim",
		    facts->trim.done ? mt_stats_json_cleanup(&facts->trim.record) : json_null());
	mt_json_set(root, "sites", sites_json(&facts->sites));
	mt_json_set(root, "group", group_json(&facts->group));
	mt_json_set(root, "looked_s",
		    json_real(facts->samples_count ? last->at_s - facts->samples[0].at_s : 0));
	mt_json_set(root, "history_s",
		    json_real(facts->history_count ? -facts->history[0].at_s : 0));
	mt_json_set(root, "age_s", json_real(facts->age_s));
	mt_json_set_u64(root, "samples_count", facts->samples_count);
	mt_json_set_bool(root, "awake", facts->awake);
	mt_json_set_bool(root, "answers", facts->awake && !facts->silent_count);
	mt_json_set_bool(root, "interrupted", facts->interrupted);
	mt_json_set_bool(root, "ended", facts->ended);
	return root;
}

static json_t *tree_json(const struct mt_diagnose_tree *tree, const struct mt_trend *trend)
{
	json_t *object = json_object();
	const struct mt_process_tree_sums *sums = &tree->last;

	mt_json_set_u64(object, "processes_count", tree->count);
	mt_json_set_u64(object, "forks_count", tree->forks_count);
	mt_json_set_u64(object, "rss_bytes", sums->rss_bytes);
	mt_json_set_u64(object, "pss_bytes", sums->pss_bytes);
	mt_json_set_u64(object, "pss_first_bytes", tree->first.pss_bytes);
	mt_json_set(object, "pss_trend", tree->points_count ? trend_json(trend) : json_null());
	mt_json_set_u64(object, "private_bytes", sums->private_bytes);
	mt_json_set_u64(object, "shared_bytes", sums->shared_bytes);
	mt_json_set_u64(object, "copied_bytes", sums->copied_bytes);
	mt_json_set_u64(object, "copied_first_bytes", tree->first.copied_bytes);
	mt_json_set_u64(object, "shm_bytes", sums->shm_bytes);
	mt_json_set_u64(object, "file_bytes", sums->file_bytes);
	mt_json_set_u64(object, "swap_bytes", sums->swap_bytes);
	return object;
}

/* The object is the process that has the verdict. For a tree, `processes` has the others, `family`
 * the sums. */
void mt_diagnose_print_json(const struct mt_diagnose_report *report)
{
	const struct mt_diagnose_tree *tree = &report->facts[0]->tree;
	json_t *root = process_json(report->facts[report->worst], report->diagnoses[report->worst]),
	       *processes = json_array();

	mt_json_set(root, "family",
		    tree->known ? tree_json(tree, &report->diagnoses[0]->tree) : json_null());
	for (size_t i = 0; i < report->count; i++)
		if (i != report->worst)
			mt_json_append(processes,
				       process_json(report->facts[i], report->diagnoses[i]));
	mt_json_set(root, "processes", processes);
	mt_json_print(root, true);
}
