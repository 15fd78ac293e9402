/* ctl/report/report.h -- one page of HTML that explains a process, for a ticket or a mail: verdict,
 * memory over time, cleanups, settings, sites, environment. It is whole by itself: no script, no
 * other file, no address. One thread may call.
 *
 * It shows what the other commands show. Of the environment it has the variables that set an
 * allocator, Python or the library, and no other. */
#ifndef MT_CTL_REPORT_REPORT_H
#define MT_CTL_REPORT_REPORT_H

#include <stdio.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/metrics/recording.h"
#include "ctl/process/look.h"
#include "ctl/profile/lines.h"

struct mt_report {
	const struct mt_recording *recording; /* its memory over time; a PID: of its ring */
	const struct mt_facts *facts;
	const struct mt_diagnosis *diagnosis;
	const struct mt_target *target;     /* a process with figures of its own; NULL: none */
	const struct mt_look *look;         /* a running process; NULL: a recording */
	const struct mt_sites *sites;       /* NULL: no profile */
	const struct mt_lines *lines;       /* Python's; NULL: nobody looked */
	const struct mt_last_summary *last; /* of a process at its limit; NULL: none */
	char lines_why[256];                /* why there are none, "" */
	struct mt_runtime runtime;          /* of a running process */
	/* the picture in two widths, as SVG; NULL: there is none */
	const char *wide, *narrow;
	uint64_t time_ns; /* CLOCK_REALTIME */
};

/* Writes the page. The caller checks `to` for errors (ferror(3)). */
void mt_report_write(const struct mt_report *report, FILE *to);

/* ---- the parts of the page, in their order ---- */

/* Each writes a <section>, or nothing if it has nothing to say. */
void mt_report_memory(const struct mt_report *report, FILE *to);
void mt_report_devices(const struct mt_report *report, FILE *to);
void mt_report_cleanups(const struct mt_report *report, FILE *to);
void mt_report_settings(const struct mt_report *report, FILE *to);
void mt_report_environment(const struct mt_report *report, FILE *to);

/* Return a member of the recording's line about the process (settings, allocator), "" if there
 * is none. `from`: recording->root or ->header. */
const char *mt_report_member(const json_t *from, const char *name);

#endif
