/* ctl/report/sites.c -- what allocates: stacks of the heap profiler, and lines of Python. */
#include "ctl/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"

#define SITES_SHOWN  10u
#define STACKS_SHOWN 3u /* the first ones with their stack */
#define FRAMES_SHOWN 12u
#define LINES_SHOWN  15u

static void write_site(const struct mt_sites *sites, const struct mt_site *site, FILE *to)
{
	char *where = mt_sites_where(site);

	fputs("<tr>", to);
	mt_html_cell(to, "<td class=\"n\">", mt_text_bytes(site->live_bytes).text);
	mt_html_cellf(to, "<td class=\"n\">", "%.1f %%",
		      sites->live_bytes ? 100 * (double)site->live_bytes / (double)sites->live_bytes
					: 0);
	mt_html_cell(to, "<td class=\"n more\">", mt_text_count(site->live_count).text);
	mt_html_cell(to, "<td class=\"n more\">", mt_text_count(site->sampled_count).text);
	mt_html_cell(to, "<td class=\"code\">", where);
	free(where);
	fputs("</tr>\n", to);
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
	fputs("</p>\n<table><thead><tr><th class=\"n\">Bytes</th><th class=\"n\">Share</th>"
	      "<th class=\"n more\">Blocks</th><th class=\"n more\">Samples</th><th>Where</th>"
	      "</tr></thead><tbody>\n",
	      to);
	for (size_t i = 0; i < sites->count && i < SITES_SHOWN; i++)
		write_site(sites, &sites->list[i], to);
	fputs("</tbody></table>\n", to);
	for (size_t i = 0; i < sites->count && i < STACKS_SHOWN; i++)
		write_stack(i + 1, &sites->list[i], to);
}

static void write_grown(const struct mt_diagnose_sites *sites, FILE *to)
{
	fputs("<h3>Grown during the look</h3>\n<table><thead><tr><th class=\"n\">More</th>"
	      "<th class=\"n more\">Blocks</th><th>Where</th></tr></thead><tbody>\n",
	      to);
	for (size_t i = 0; i < sites->count; i++) {
		fputs("<tr>", to);
		mt_html_cell(to, "<td class=\"n\">",
			     mt_text_bytes(sites->list[i].grown_bytes).text);
		mt_html_cell(to, "<td class=\"n more\">",
			     mt_text_count(sites->list[i].grown_count).text);
		mt_html_cell(to, "<td class=\"code\">", sites->list[i].name);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table>\n", to);
}

static void write_lines(const struct mt_lines *lines, FILE *to)
{
	fputs("<h3>Python lines that allocate</h3>\n<p class=\"note\">", to);
	mt_html_textf(to,
		      "%s in %s allocated during the look and still live, by tracemalloc; growth "
		      "is of %.1f s.",
		      mt_text_signed_bytes((int64_t)lines->bytes).text,
		      mt_text_counted(lines->blocks_count, "block", "blocks").text,
		      (double)lines->growth_ns / 1e9);
	fputs("</p>\n<table><thead><tr><th class=\"n\">Growth</th><th class=\"n\">Live</th>"
	      "<th class=\"n more\">Blocks</th><th>Steady</th><th>Line</th></tr></thead><tbody>\n",
	      to);
	for (size_t i = 0; i < lines->count && i < LINES_SHOWN; i++) {
		const struct mt_line *line = &lines->list[i];

		if (!line->bytes)
			continue;
		fputs("<tr>", to);
		mt_html_cell(to, "<td class=\"n\">", mt_text_signed_bytes(line->growth_bytes).text);
		mt_html_cell(to, "<td class=\"n\">",
			     mt_text_signed_bytes((int64_t)line->bytes).text);
		mt_html_cell(to, "<td class=\"n more\">", mt_text_count(line->count).text);
		mt_html_cell(to, "<td>", line->is_steady ? "yes" : "-");
		mt_html_cellf(to, "<td class=\"code\">", "%s:%" PRIu32, line->file, line->line);
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table>\n", to);
}

static void write_why_not(const char *what, const char *why, FILE *to)
{
	fputs("<p class=\"note\">", to);
	mt_html_textf(to, "No %s: %s.", what, why);
	fputs("</p>\n", to);
}

void mt_report_sites(const struct mt_report *report, FILE *to)
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
