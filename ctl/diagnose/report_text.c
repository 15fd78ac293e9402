/* ctl/diagnose/report_text.c -- a diagnosis as text: verdict, evidence, advice, other findings. */
#include <stdio.h>
#include <string.h>

#include "ctl/diagnose/role.h"
#include "ctl/output/table.h"

static void print_evidence(const struct mt_finding *finding)
{
	struct mt_table *table = mt_table_new("<  EVIDENCE|<");

	for (size_t i = 0; i < finding->evidence_count; i++) {
		char label[48];

		snprintf(label, sizeof(label), "  %s", finding->evidence[i].label);
		mt_table_add(table, label);
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

		printf("  %s: %s (confidence %s)\n", mt_diagnose_word(finding->verdict),
		       finding->title, mt_diagnose_confidence_word(finding->confidence));
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
		const struct mt_sample *last =
			&facts[i]->samples[facts[i]->samples_count ? facts[i]->samples_count - 1
								   : 0];
		bool gone = facts[i]->ended && diagnoses[i]->list[0].verdict == MT_VERDICT_UNKNOWN;
		const char *word = gone ? "ended" : mt_diagnose_word(diagnoses[i]->list[0].verdict);
		char pid[16], verdict[64];

		snprintf(pid, sizeof(pid), "%d", (int)facts[i]->process.pid);
		mt_table_add(table, pid);
		mt_table_add(table, facts[i]->process.comm);
		mt_table_add(table, mt_text_bytes(last->rss_bytes).text);
		mt_table_add(table, mt_diagnose_knows_live(facts[i])
					    ? mt_text_bytes(last->held_bytes).text
					    : "-");
		mt_table_add(table, mt_diagnose_rate(diagnoses[i]->rss.slope).text);
		snprintf(verdict, sizeof(verdict), "%s%s", word,
			 !facts[i]->process.shimmed  ? " (does not carry the shim)"
			 : facts[i]->asleep && !gone ? " (asleep)"
						     : "");
		mt_table_add(table, verdict);
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
	struct mt_short_text text = {""};

	if (seconds >= 1)
		snprintf(text.text, sizeof(text.text), ", and read the %.40s before",
			 mt_text_span((uint64_t)(seconds * 1e9)).text);
	return text;
}

/* How the samples were taken, and how sure the verdict is. */
static void print_sampling(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis)
{
	double seconds = facts->samples_count ? facts->samples[facts->samples_count - 1].at_s : 0;
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
		printf("\n  It does not answer (stopped, or it hangs): the figures of its heap are "
		       "old.");
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

/* In the form of `mtctl doctor`. */
static void print_checks(const struct mt_checks *checks)
{
	if (!checks->count)
		return;
	printf("\n%s  CHECKLIST%s\n", mt_table_colour(MT_COLOUR_HEAD), mt_table_colour_end());
	for (size_t i = 0; i < checks->count; i++) {
		const struct mt_check *check = &checks->list[i];

		mt_check_print(check->finding, *check->advice ? check->advice : NULL, "%s",
			       check->text);
	}
}

void mt_diagnose_print_text(const struct mt_diagnose_report *report)
{
	const struct mt_facts *facts = report->facts[report->worst];
	const struct mt_diagnosis *diagnosis = report->diagnoses[report->worst];
	const struct mt_finding *first = &diagnosis->list[0];
	enum mt_colour colour = first->verdict == MT_VERDICT_HEALTHY   ? MT_COLOUR_OK
				: first->verdict == MT_VERDICT_UNKNOWN ? MT_COLOUR_NOTE
								       : MT_COLOUR_WARN;

	printf("%s%s%s: ", mt_table_colour(colour), mt_diagnose_word(first->verdict),
	       mt_table_colour_end());
	if (report->count > 1 && first->verdict != MT_VERDICT_COPY_ON_WRITE && !first->is_of_tree)
		printf("process %d (%s): ", (int)facts->process.pid, facts->process.comm);
	puts(first->title);
	print_evidence(first);
	print_advice(first);
	print_others(diagnosis);
	if (report->count > 1)
		print_processes(report);
	print_checks(&report->checks);
	print_sampling(facts, diagnosis);
}
