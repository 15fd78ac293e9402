/* ctl/report/sections.h -- the parts of the page, in their order. Each writes a <section>, or
 * nothing where it has nothing to say. One thread may call. */
#ifndef MT_CTL_REPORT_SECTIONS_H
#define MT_CTL_REPORT_SECTIONS_H

#include "ctl/output/markup.h"
#include "ctl/report/report.h"

extern const char mt_report_style[];

void mt_report_verdict(const struct mt_report *report, FILE *to);
void mt_report_memory(const struct mt_report *report, FILE *to);
void mt_report_devices(const struct mt_report *report, FILE *to);
void mt_report_cleanups(const struct mt_report *report, FILE *to);
void mt_report_settings(const struct mt_report *report, FILE *to);
void mt_report_sites(const struct mt_report *report, FILE *to);
void mt_report_environment(const struct mt_report *report, FILE *to);

/* Return a member of the recording's line about the process (settings, allocator), "" where there
 * is none. `from`: recording->root or ->header. */
const char *mt_report_member(const json_t *from, const char *name);

#endif
