/* ctl/report/verdict.c -- the verdict of diagnose, with its evidence. */
#include "ctl/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"

static void write_evidence(const struct mt_finding *finding, FILE *to)
{
	if (!finding->evidence_count)
		return;
	fputs("<h3>Evidence</h3>\n<table><tbody>\n", to);
	for (size_t i = 0; i < finding->evidence_count; i++) {
		fputs("<tr>", to);
		mt_html_cell(to, "<td class=\"k\">", finding->evidence[i].label);
		mt_html_cell(to, "<td>", finding->evidence[i].text);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table>\n", to);
}

static void write_advice(const struct mt_finding *finding, FILE *to)
{
	if (!finding->advice_count)
		return;
	fputs("<h3>What to do</h3>\n<ol>\n", to);
	for (size_t i = 0; i < finding->advice_count; i++) {
		fputs("<li>", to);
		mt_html_text(to, finding->advice[i]);
		fputs("</li>\n", to);
	}
	fputs("</ol>\n", to);
}

static void write_others(const struct mt_diagnosis *diagnosis, FILE *to)
{
	if (diagnosis->count < 2)
		return;
	fputs("<h3>Also found</h3>\n<ul>\n", to);
	for (size_t i = 1; i < diagnosis->count; i++) {
		const struct mt_finding *finding = &diagnosis->list[i];

		fputs("<li><b>", to);
		mt_html_text(to, mt_finding_word(finding));
		fputs("</b>: ", to);
		mt_html_text(to, finding->text);
		if (finding->verdict != MT_VERDICT_NONE)
			mt_html_textf(to, " (confidence %s, %.0f %%)",
				      mt_diagnose_confidence_word(finding->confidence),
				      finding->confidence * 100);
		if (*finding->environment)
			mt_html_textf(to, ". At the next start: %s", finding->environment);
		if (finding->advice_count)
			mt_html_textf(to, ". %s", finding->advice[0]);
		fputs("</li>\n", to);
	}
	fputs("</ul>\n", to);
}

/* How it was judged. */
static void write_source(const struct mt_report *report, FILE *to)
{
	const struct mt_facts *facts = report->facts;
	double seconds = facts->samples_count ? facts->samples[facts->samples_count - 1].at_s -
							facts->samples[0].at_s
					      : 0;

	fputs("<p class=\"note\">", to);
	if (!report->look) {
		mt_html_textf(to,
			      "Judged from the recording alone, %s of %s: the process was asked "
			      "for nothing, and no cleanup was tried.",
			      mt_text_counted(facts->samples_count, "sample", "samples").text,
			      mt_text_span((uint64_t)(seconds * 1e9)).text);
	} else {
		mt_html_textf(to, "Sampled %s in %.0f s%s",
			      mt_text_counted(facts->samples_count, "time", "times").text, seconds,
			      facts->interrupted ? " (ended early)" : "");
		mt_html_text(to, mt_diagnose_history(facts).text);
		fputs(facts->trim.done ? "; then a cleanup was requested, whose effect is a part "
					 "of the evidence."
				       : ".",
		      to);
		if (facts->silent_count)
			fputs(" It does not reply (stopped, or it hangs): the figures of its heap "
			      "are old.",
			      to);
		else if (facts->trim.requested && !facts->trim.done)
			mt_html_textf(to, " The requested cleanup got no reply: %s.",
				      facts->trim.why_not);
	}
	fputs("</p>\n", to);
}

void mt_report_verdict(const struct mt_report *report, FILE *to)
{
	const struct mt_finding *first = &report->diagnosis->list[0];
	const char *tone = first->verdict == MT_VERDICT_HEALTHY   ? "ok"
			   : first->verdict == MT_VERDICT_UNKNOWN ? "open"
								  : "bad";

	fprintf(to, "<section class=\"verdict %s\" id=\"verdict\">\n<h2>", tone);
	if (!first->is_headline)
		fprintf(to, "<b>%s</b>: ", mt_diagnose_word(first->verdict));
	mt_html_text(to, first->text);
	fprintf(to,
		"</h2>\n<p>Confidence: %s (%.0f %%) <span class=\"sure\"><i style=\"width:"
		"%.0f%%\"></i></span></p>\n",
		mt_diagnose_confidence_word(first->confidence), first->confidence * 100,
		first->confidence * 100);
	write_evidence(first, to);
	write_advice(first, to);
	write_others(report->diagnosis, to);
	write_source(report, to);
	fputs("</section>\n", to);
}

void mt_report_last(const struct mt_report *report, FILE *to)
{
	char *text = NULL, *rest, *line;
	size_t bytes = 0;
	FILE *memory;

	if (!report->last)
		return;
	memory = mt_error_check_memory(open_memstream(&text, &bytes));
	mt_last_story_write_head(report->last, memory);
	mt_last_story_write_places(report->last, memory);
	fclose(memory);
	fputs("<section><h2>At its limit</h2>\n<pre>", to);
	for (rest = text; (line = strsep(&rest, "\n"));) {
		mt_html_text(to, line);
		putc('\n', to);
	}
	fputs("</pre></section>\n", to);
	free(text);
}
