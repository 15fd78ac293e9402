/* ctl/report/page.c -- see report.h: the head of the page and the order of its parts. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/report/sections.h"

const char *mt_report_member(const json_t *from, const char *name)
{
	const char *text = json_string_value(json_object_get(from, name));

	return text ? text : "";
}

static const struct mt_recording_process *root_of(const struct mt_report *report)
{
	return mt_recording_process(report->recording, report->recording->pid);
}

/* The command line as far as the recording or mtctl has it. */
static const char *title_of(const struct mt_report *report)
{
	const struct mt_recording_process *root = root_of(report);

	if (report->look && *report->look->process.command)
		return report->look->process.command;
	return root && *root->command ? root->command
	       : root && *root->comm  ? root->comm
				      : report->recording->name;
}

static void write_date(FILE *to, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm broken;
	char text[48] = "";

	if (localtime_r(&seconds, &broken))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &broken);
	mt_html_text(to, text);
}

static void write_subtitle(const struct mt_report *report, FILE *to)
{
	const struct mt_recording *recording = report->recording;
	const struct mt_recording_process *root = root_of(report);
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
		fputs(", seen ", to);
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
	fputs(mt_report_style, to);
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
	mt_report_verdict(report, to);
	mt_report_memory(report, to);
	mt_report_devices(report, to);
	mt_report_cleanups(report, to);
	mt_report_sites(report, to);
	mt_report_settings(report, to);
	mt_report_environment(report, to);
	end(report, to);
}
