/* ctl/report/settings.c -- the settings that the process had last: those that somebody has set
 * first. */
#include "ctl/report/sections.h"

#include <string.h>

#include "ctl/process/setting.h"

static bool is_default(const json_t *setting)
{
	return strcmp(mt_report_member(setting, "origin"), "default") == 0;
}

static size_t count_of(const json_t *settings, bool defaults)
{
	const json_t *one;
	size_t i, count = 0;

	json_array_foreach(settings, i, one) count += is_default(one) == defaults;
	return count;
}

/* MT_GC_ROUNDS; a name that this mtctl does not know is shown as it is. */
static void write_name(const json_t *one, FILE *to)
{
	const char *name = mt_report_member(one, "name");
	const struct mt_setting *setting = mt_setting_find(name);

	mt_html_cell(to, "<td class=\"code\">", setting ? setting->environment : name);
	mt_html_cell(to, "<td class=\"code\">", mt_report_member(one, "value"));
}

static void write_changed(const json_t *settings, FILE *to)
{
	const json_t *one;
	size_t i;

	fputs("<table><thead><tr><th>Setting</th><th>Value</th><th>Set by</th><th class=\"more\">"
	      "Default</th></tr></thead><tbody>\n",
	      to);
	json_array_foreach(settings, i, one)
	{
		const struct mt_setting *setting = mt_setting_find(mt_report_member(one, "name"));

		if (is_default(one))
			continue;
		fputs("<tr>", to);
		write_name(one, to);
		mt_html_cell(to, "<td>", mt_report_member(one, "origin"));
		mt_html_cell(to, "<td class=\"code more\">", setting ? setting->initial : "");
		fputs("</tr>\n", to);
	}
	fputs("</tbody></table>\n", to);
}

/* Many, and seldom of interest: as little room as can be. */
static void write_defaults(const json_t *settings, FILE *to)
{
	const json_t *one;
	size_t i;

	fputs("<h3>At their defaults</h3>\n<p class=\"flow code\">", to);
	json_array_foreach(settings, i, one)
	{
		const char *name = mt_report_member(one, "name");
		const struct mt_setting *setting = mt_setting_find(name);

		if (!is_default(one) || !*mt_report_member(one, "value"))
			continue;
		fputs("<span>", to);
		mt_html_textf(to, "%s=%s", setting ? setting->environment : name,
			      mt_report_member(one, "value"));
		fputs("</span>\n", to);
	}
	fputs("</p>\n", to);
}

void mt_report_settings(const struct mt_report *report, FILE *to)
{
	const json_t *settings = json_object_get(report->recording->root, "settings");

	if (!json_array_size(settings))
		return;
	fputs("<section id=\"settings\">\n<h2>Settings</h2>\n", to);
	if (count_of(settings, false))
		write_changed(settings, to);
	else
		fputs("<p class=\"note\">All are at their defaults.</p>\n", to);
	if (count_of(settings, true))
		write_defaults(settings, to);
	fputs("</section>\n", to);
}
