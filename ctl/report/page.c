/* ctl/report/page.c -- see report.h: the head of the page and the order of its parts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/report/report.h"

/* ---- verdict ---- */

static void write_evidence(const struct mt_finding *finding, FILE *to)
{
	if (!finding->evidence_count)
		return;
	fputs("<h3>Evidence</h3>\n<table><tbody>\n", to);
	for (size_t i = 0; i < finding->evidence_count; i++)
		mt_html_row(to, "k|", finding->evidence[i].label, finding->evidence[i].text);
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

/* How the verdict was reached. */
static void write_source(const struct mt_report *report, FILE *to)
{
	const struct mt_facts *facts = report->facts;
	double seconds = mt_facts_seconds(facts);

	fputs("<p class=\"note\">", to);
	if (!report->look) {
		mt_html_textf(to,
			      "Judged from the recording alone, %s of %s: the process was asked "
			      "for nothing, and no cleanup was tried.",
			      mt_text_counted(facts->samples_count, "sample", "samples").text,
			      mt_text_span((uint64_t)(seconds * 1e9)).text);
	} else {
		mt_html_textf(to, "Sampled %s in %.1f s%s",
			      mt_text_counted(facts->samples_count, "time", "times").text, seconds,
			      facts->interrupted ? " (ended early)" : "");
		mt_html_text(to, mt_diagnose_history(facts).text);
		fputs(facts->trim.done ? "; then a cleanup was requested, whose effect is a part "
					 "of the evidence."
				       : ".",
		      to);
		if (facts->ended)
			mt_html_textf(to,
				      " Then the process %s: this page has what was known at its "
				      "last sample.",
				      facts->has_exec ? "ran another program" : "ended");
		else if (facts->silent_count)
			mt_html_textf(to, " The figures of its heap are old: %s.",
				      mt_facts_silence(facts));
		else if (facts->trim.requested && !facts->trim.done)
			mt_html_textf(to, " The requested cleanup got no reply: %s.",
				      facts->trim.why_not);
	}
	fputs("</p>\n", to);
}

static void report_verdict(const struct mt_report *report, FILE *to)
{
	const struct mt_finding *first = &report->diagnosis->list[0];
	const char *tone = first->verdict == MT_VERDICT_HEALTHY   ? "ok"
			   : first->verdict == MT_VERDICT_UNKNOWN ? "open"
								  : "bad";

	fprintf(to, "<section class=\"verdict %s\" id=\"verdict\">\n<h2>", tone);
	if (!first->is_headline)
		fprintf(to, "<b>%s</b>: ", mt_diagnose_word(first->verdict));
	mt_html_text(to, first->text);
	fputs("</h2>\n", to);
	if (first->verdict != MT_VERDICT_UNKNOWN)
		fprintf(to,
			"<p>Confidence: %s (%.0f %%) <span class=\"sure\"><i style=\"width:"
			"%.0f%%\"></i></span></p>\n",
			mt_diagnose_confidence_word(first->confidence), first->confidence * 100,
			first->confidence * 100);
	write_evidence(first, to);
	write_advice(first, to);
	write_others(report->diagnosis, to);
	write_source(report, to);
	fputs("</section>\n", to);
}

static void report_last(const struct mt_report *report, FILE *to)
{
	char *text = NULL, *rest, *line;
	size_t bytes = 0;
	FILE *memory;

	if (!report->last)
		return;
	memory = mt_error_check_memory(open_memstream(&text, &bytes));
	mt_last_summary_write_head(report->last, memory);
	mt_last_summary_write_growth(report->last, memory);
	fclose(memory);
	fputs("<section><h2>At its limit</h2>\n<pre>", to);
	for (rest = text; (line = strsep(&rest, "\n"));) {
		mt_html_text(to, line);
		putc('\n', to);
	}
	fputs("</pre></section>\n", to);
	free(text);
}

/* ---- sites ---- */

#define SITES_SHOWN  10u
#define STACKS_SHOWN 3u /* the first ones with their stack */
#define FRAMES_SHOWN 12u
#define LINES_SHOWN  15u

static void write_site(const struct mt_sites *sites, const struct mt_site *site, FILE *to)
{
	char *where = mt_sites_where(site), share[16];

	snprintf(share, sizeof(share), "%.1f %%",
		 mt_stats_percent(site->live_bytes, sites->live_bytes));
	mt_html_row(to, "n|n|n more|n more|code", mt_text_bytes(site->live_bytes).text, share,
		    mt_text_count(site->live_count).text, mt_text_count(site->sampled_count).text,
		    where);
	free(where);
}

static void write_stack(size_t number, const struct mt_site *site, FILE *to)
{
	size_t first = mt_sites_first_frame(site);

	mt_html_textf(to, "%zu. %s", number, mt_text_bytes(site->live_bytes).text);
	fputs("<pre>", to);
	for (size_t i = first; i < site->frames_count && i < first + FRAMES_SHOWN; i++) {
		mt_html_text(to, site->frames[i]);
		fputc('\n', to);
	}
	fputs("</pre>\n", to);
}

static void write_live(const struct mt_sites *sites, FILE *to)
{
	fputs("<h3>Live heap by stack</h3>\n<p class=\"note\">", to);
	mt_html_textf(to, "%s, estimated from %s, one in %s; fewer than ten are a guess.",
		      mt_text_bytes(sites->live_bytes).text,
		      mt_text_counted(sites->sampled_count, "sample", "samples").text,
		      mt_text_bytes(sites->rate_bytes).text);
	fputs("</p>\n", to);
	mt_html_head(to, "n|n|n more|n more|", "Bytes", "Share", "Blocks", "Samples", "Where");
	for (size_t i = 0; i < sites->count && i < SITES_SHOWN; i++)
		write_site(sites, &sites->list[i], to);
	fputs("</tbody></table>\n", to);
	for (size_t i = 0; i < sites->count && i < STACKS_SHOWN; i++)
		write_stack(i + 1, &sites->list[i], to);
}

static void write_grown(const struct mt_diagnose_sites *sites, FILE *to)
{
	fputs("<h3>Grown during the look</h3>\n", to);
	mt_html_head(to, "n|n more|", "More", "Blocks", "Where");
	for (size_t i = 0; i < sites->count; i++)
		mt_html_row(to, "n|n more|code", mt_text_bytes(sites->list[i].grown_bytes).text,
			    mt_text_count(sites->list[i].grown_count).text, sites->list[i].name);
	fputs("</tbody></table>\n", to);
}

static void write_lines(const struct mt_lines *lines, FILE *to)
{
	char where[1024];

	fputs("<h3>Python lines that allocate</h3>\n<p class=\"note\">", to);
	mt_html_textf(to,
		      "%s in %s allocated during the look and still live, by tracemalloc; growth "
		      "is of %.1f s.",
		      mt_text_signed_bytes((int64_t)lines->bytes).text,
		      mt_text_counted(lines->blocks_count, "block", "blocks").text,
		      (double)lines->growth_ns / 1e9);
	fputs("</p>\n", to);
	mt_html_head(to, "n|n|n more||", "Growth", "Live", "Blocks", "Steady", "Line");
	for (size_t i = 0; i < lines->count && i < LINES_SHOWN; i++) {
		const struct mt_line *line = &lines->list[i];

		if (!line->bytes)
			continue;
		snprintf(where, sizeof(where), "%s:%" PRIu32, line->file, line->line);
		mt_html_row(to, "n|n|n more||code", mt_text_signed_bytes(line->growth_bytes).text,
			    mt_text_signed_bytes((int64_t)line->bytes).text,
			    mt_text_count(line->count).text, line->is_steady ? "yes" : "-", where);
	}
	fputs("</tbody></table>\n", to);
}

static void write_why_not(const char *what, const char *why, FILE *to)
{
	fputs("<p class=\"note\">", to);
	mt_html_textf(to, "No %s: %s.", what, why);
	fputs("</p>\n", to);
}

static void report_sites(const struct mt_report *report, FILE *to)
{
	const struct mt_diagnose_sites *grown = &report->facts->sites;
	bool has_live = report->sites && report->sites->count,
	     lacks_stacks = !has_live && !grown->count && *grown->why_not;

	if (!has_live && !grown->count && !lacks_stacks && !report->lines && !*report->lines_why)
		return;
	fputs("<section id=\"sites\">\n<h2>What allocates</h2>\n", to);
	if (report->lines)
		write_lines(report->lines, to);
	if (*report->lines_why)
		write_why_not("Python lines", report->lines_why, to);
	if (grown->count)
		write_grown(grown, to);
	if (has_live)
		write_live(report->sites, to);
	if (lacks_stacks)
		write_why_not("stacks", grown->why_not, to);
	fputs("</section>\n", to);
}

/* ---- page ---- */

/* How the page looks. The colours of the parts are those of the pictures
 * (ctl/ui/plot/plot.h). The picture has colours for white paper; in the dark its text, its grid
 * and what is white in it get those of the page. Paper is white, whatever the screen is. */
static const char style[] =
	":root{--paper:#fff;--card:#f6f7f9;--text:#1a1a1a;--soft:#57606a;--line:#d8dee4;"
	"--accent:#0072b2;--ok:#1a7f37;--bad:#c0392b;--note:#8a6d00}\n"
	"@media screen and (prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1d2229;"
	"--text:#e6e8eb;--soft:#9aa4b0;--line:#353c46;--accent:#6cb6ff;--ok:#4cc26b;"
	"--bad:#ff7b6b;--note:#e3b341}\n"
	".plot text{fill:var(--text)}\n"
	".plot path[fill='#ffffff']{fill:var(--paper)}\n"
	".plot .axis path{stroke:#6b7684}\n"
	".plot .axis path[stroke='#e3e6ea']{stroke:#2b313a}\n"
	".plot path[fill='#000000']{fill:#e6e8eb}\n"
	".plot path[fill='#0072b2']{fill:#56a8e8}\n"
	".plot path[stroke='#0072b2']{stroke:#56a8e8}\n"
	".plot path[stroke='#666666']{stroke:#aab3bd}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;max-width:1180px;padding:20px 24px 32px;background:var(--paper);"
	"color:var(--text);font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,"
	"'DejaVu Sans',sans-serif;-webkit-text-size-adjust:100%}\n"
	"h1{font-size:21px;line-height:1.3;margin:0 0 2px;overflow-wrap:anywhere}\n"
	"h2{font-size:17px;margin:0 0 8px}\n"
	"h3{font-size:14px;margin:14px 0 4px}\n"
	"p{margin:6px 0}\n"
	"header p,.note,footer{color:var(--soft);font-size:13px}\n"
	"section{margin-top:26px;break-inside:auto}\n"
	"h2,h3{break-after:avoid}\n"
	"tr,li,.verdict,.plot{break-inside:avoid}\n"
	".verdict{background:var(--card);border-left:5px solid var(--tone);border-radius:4px;"
	"padding:14px 18px}\n"
	".verdict h2{font-size:19px;margin:0 0 4px}\n"
	".verdict h2 b{color:var(--tone)}\n"
	".ok{--tone:var(--ok)}.bad{--tone:var(--bad)}.open{--tone:var(--note)}\n"
	".sure{display:inline-block;width:120px;height:8px;border-radius:4px;background:"
	"var(--line);vertical-align:1px;overflow:hidden}\n"
	".sure i{display:block;height:100%;background:var(--tone)}\n"
	"ol,ul{margin:4px 0;padding-left:22px}li{margin:3px 0}\n"
	"table{border-collapse:collapse;font-size:14px;max-width:100%}\n"
	"th{font-weight:600;color:var(--soft);text-align:left;font-size:12.5px}\n"
	"td,th{padding:3px 16px 3px 0;vertical-align:top;overflow-wrap:anywhere}\n"
	"thead th{border-bottom:1px solid var(--line)}\n"
	"tbody tr+tr td,tbody tr+tr th{border-top:1px solid var(--line)}\n"
	".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
	".k{color:var(--soft)}.k,.w,th{white-space:nowrap}\n"
	".wide-table{width:100%}\n"
	"code,.code{font:13px/1.45 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
	"overflow-wrap:anywhere}\n"
	"pre{font:12.5px/1.4 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
	"white-space:pre-wrap;overflow-wrap:anywhere;margin:2px 0 8px;color:var(--soft)}\n"
	".bar{display:flex;height:18px;border-radius:3px;overflow:hidden;margin:8px 0;"
	"background:var(--line)}\n"
	".bar i{display:block}\n"
	".live{background:#009e73}.reusable{background:#e69f00}.files{background:#56b4e9}"
	".other{background:#cc79a7}\n"
	".dot{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px}\n"
	".plot svg{display:block;width:100%;height:auto}\n"
	".narrow{display:none}\n"
	".flow{color:var(--soft);line-height:1.75}.flow span{margin-right:14px}\n"
	".verdict,.bar,.bar i,.dot,.sure,.sure i{print-color-adjust:exact;"
	"-webkit-print-color-adjust:exact}\n"
	"footer{margin-top:28px;border-top:1px solid var(--line);padding-top:8px}\n"
	"@media screen and (max-width:640px){body{padding:14px 12px 24px;font-size:14px}"
	".wide{display:none}.narrow{display:block}.more{display:none}"
	".verdict{padding:12px 12px}h1{font-size:18px}"
	"td,th{padding-right:8px}table{font-size:12.5px}section{overflow-x:auto}}\n"
	"@media print{body{max-width:none;padding:0;font-size:11px}table{font-size:10.5px}"
	"h1{font-size:16px}h2,.verdict h2{font-size:13.5px}h3{font-size:11.5px}.note,footer,header "
	"p,code,.code,pre{font-size:10px}section{margin-top:16px}@page{margin:14mm}}\n";

const char *mt_report_member(const json_t *from, const char *name)
{
	const char *text = json_string_value(json_object_get(from, name));

	return text ? text : "";
}

/* The command line as far as the recording or mtctl has it. */
static const char *title_of(const struct mt_report *report)
{
	const struct mt_recording_process *root =
		mt_recording_process(report->recording, report->recording->pid);

	if (report->look && *report->look->process.command)
		return report->look->process.command;
	return root && *root->command ? root->command
	       : root && *root->comm  ? root->comm
				      : report->recording->name;
}

static void write_date(FILE *to, uint64_t time_ns)
{
	mt_html_text(to, mt_text_date(time_ns, "%Y-%m-%d %H:%M:%S %z").text);
}

static void write_subtitle(const struct mt_report *report, FILE *to)
{
	const struct mt_recording *recording = report->recording;
	const struct mt_recording_process *root = mt_recording_process(recording, recording->pid);
	char host[64] = "";

	if (!report->look)
		snprintf(host, sizeof(host), "%s", recording->host);
	else if (gethostname(host, sizeof(host) - 1) != 0)
		*host = '\0';
	mt_html_textf(to, "process %" PRIu64, recording->pid);
	if (root && *root->rank)
		mt_html_textf(to, ", rank %s", root->rank);
	if (*host)
		mt_html_textf(to, " on %s", host);
	if (report->look) {
		fputs(report->facts->has_exec ? ", ran another program before "
		      : report->facts->ended  ? ", ended before "
					      : ", seen ",
		      to);
		write_date(to, report->time_ns);
	} else {
		fputs(", recorded from ", to);
		write_date(to, mt_recording_begin_ns(recording));
		fputs(" to ", to);
		write_date(to, mt_recording_end_ns(recording));
	}
	if (recording->processes_count > 1)
		mt_html_textf(to, "; %zu processes, verdict and settings of the first",
			      recording->processes_count);
	if (recording->ended && (recording->killed || recording->code))
		mt_html_textf(to,
			      recording->killed ? "; ended by signal %" PRIu64
						: "; exit code %" PRIu64,
			      recording->code);
	if (*recording->warning.text)
		mt_html_textf(to, "; %s", recording->warning.text);
}

/* The policy lets nothing run and nothing be loaded, whatever a process has in its names. */
static void begin(const struct mt_report *report, FILE *to)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<meta name=\"generator\" content=\"mtctl " MT_VERSION "\">\n<title>",
	      to);
	mt_html_textf(to, "%s: %s", mt_diagnose_word(report->diagnosis->list[0].verdict),
		      title_of(report));
	fputs("</title>\n<style>\n", to);
	fputs(style, to);
	fputs("</style>\n</head>\n<body>\n<header>\n<h1>", to);
	mt_html_text(to, title_of(report));
	fputs("</h1>\n<p>", to);
	write_subtitle(report, to);
	fputs("</p>\n</header>\n<main>\n", to);
}

static void end(const struct mt_report *report, FILE *to)
{
	fputs("</main>\n<footer><p>mtctl " MT_VERSION ", ", to);
	write_date(to, report->time_ns);
	fputs(". MB and GB are 2<sup>20</sup> and 2<sup>30</sup> bytes. This page holds a command "
	      "line; of the environment it has the variables above and no other.</p></footer>\n"
	      "</body>\n</html>\n",
	      to);
}

void mt_report_write(const struct mt_report *report, FILE *to)
{
	begin(report, to);
	report_last(report, to);
	report_verdict(report, to);
	mt_report_memory(report, to);
	mt_report_devices(report, to);
	mt_report_cleanups(report, to);
	report_sites(report, to);
	mt_report_settings(report, to);
	mt_report_environment(report, to);
	end(report, to);
}
