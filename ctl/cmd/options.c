/* ctl/cmd/options.c -- `mtctl options`: the table of settings as text, JSON and Markdown; `mtctl
 * presets`: the settings of each MT_PRESET. */
#include <stdio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/figures/setting.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"

static json_t *setting_json(const struct mt_setting *setting)
{
	json_t *object = json_object();

	mt_json_set_text(object, "name", setting->name);
	mt_json_set_text(object, "environment", setting->environment);
	mt_json_set_text(object, "kind", setting->kind_word);
	mt_json_set_text(object, "default", setting->initial);
	if (setting->kind == MT_SETTING_u64 || setting->kind == MT_SETTING_count ||
	    setting->kind == MT_SETTING_round) {
		mt_json_set_u64(object, "min", setting->min);
		mt_json_set_u64(object, "max", setting->max);
	}
	if (setting->kind == MT_SETTING_choice)
		mt_json_set_text(object, "words", setting->words);
	mt_json_set_text(object, "when", setting->live ? "live" : "start");
	mt_json_set_text(object, "help", setting->help);
	return object;
}

static void print_json(void)
{
	size_t count, aliases_count;
	const struct mt_setting *all = mt_setting_all(&count);
	const struct mt_setting_alias *aliases = mt_setting_aliases(&aliases_count);
	json_t *root = json_object(), *settings = json_array(), *names = json_array();

	for (size_t i = 0; i < count; i++)
		mt_json_append(settings, setting_json(&all[i]));
	for (size_t i = 0; i < aliases_count; i++) {
		json_t *alias = mt_json_append_object(names);

		mt_json_set_text(alias, "environment", aliases[i].environment);
		mt_json_set_text(alias, "name", aliases[i].name);
	}
	mt_json_set(root, "options", settings);
	mt_json_set(root, "aliases", names);
	mt_json_print(root, true);
}

/* Escapes bars, which end a cell. */
static void print_cell(const char *text)
{
	fputs(" ", stdout);
	for (; *text; text++)
		printf(*text == '|' ? "\\|" : "%c", *text);
	fputs(" |", stdout);
}

static void print_markdown(void)
{
	size_t count, aliases_count;
	const struct mt_setting *all = mt_setting_all(&count);
	const struct mt_setting_alias *aliases = mt_setting_aliases(&aliases_count);
	char allowed[128];

	puts("| setting | default | allowed | changes | meaning |\n|---|---|---|---|---|");
	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		printf("| `%s` |", all[i].environment);
		print_cell(all[i].initial);
		print_cell(allowed);
		print_cell(all[i].live ? "live" : "start");
		print_cell(all[i].help);
		putchar('\n');
	}
	puts("\n| also known as | setting |\n|---|---|");
	for (size_t i = 0; i < aliases_count; i++)
		printf("| `%s` | `%s` |\n", aliases[i].environment,
		       mt_setting_find(aliases[i].name)->environment);
}

static void print_text(void)
{
	size_t count, aliases_count;
	const struct mt_setting *all = mt_setting_all(&count);
	const struct mt_setting_alias *aliases = mt_setting_aliases(&aliases_count);
	struct mt_table *table = mt_table_new("<SETTING|<DEFAULT|<CHANGES|<ALLOWED|<MEANING");
	char allowed[128];

	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		mt_table_add_row(
			table, all[i].environment, all[i].initial, all[i].live ? "live" : "start",
			all[i].kind == MT_SETTING_bool ? "0|1" : allowed, all[i].help, NULL);
	}
	mt_table_print(table);
	puts("\nalso known as (MT_* wins):");
	for (size_t i = 0; i < aliases_count; i++)
		printf("  %-32s %s\n", aliases[i].environment,
		       mt_setting_find(aliases[i].name)->environment);
}

int mt_command_options(int argc, char **argv)
{
	bool json = false, markdown = false;
	const struct mt_option options[] = {
		{.name = "json", .target = &json}, {.name = "markdown", .target = &markdown}, {0}};
	const struct mt_command_line line = {"options", NULL, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	(json ? print_json : markdown ? print_markdown : print_text)();
	return MT_EXIT_OK;
}

/* ---- presets ---- */

/* Names have an underscore in the table and a dash on the command line. */
static void preset_name(const char *preset, char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "%s", preset);
	for (; *out; out++)
		if (*out == '_')
			*out = '-';
}

static void print_presets_json(const struct mt_setting_preset *lines, size_t count)
{
	json_t *root = json_object(), *presets = json_array(), *settings = NULL;
	char name[32];

	/* the lines of a preset follow one another */
	for (size_t i = 0; i < count; i++) {
		json_t *setting;

		if (!i || strcmp(lines[i].preset, lines[i - 1].preset) != 0) {
			json_t *preset = mt_json_append_object(presets);

			preset_name(lines[i].preset, name, sizeof(name));
			settings = json_array();
			mt_json_set_text(preset, "name", name);
			mt_json_set(preset, "settings", settings);
		}
		setting = mt_json_append_object(settings);
		mt_json_set_text(setting, "name", lines[i].name);
		mt_json_set_text(setting, "value", lines[i].value);
	}
	mt_json_set(root, "presets", presets);
	mt_json_print(root, true);
}

static void print_presets(const struct mt_setting_preset *lines, size_t lines_count)
{
	size_t count;
	const struct mt_setting_role *roles = mt_setting_roles(&count);
	char name[32];

	printf("%-12s  no settings: the default\n", "none");
	for (size_t i = 0; i < count; i++) {
		preset_name(roles[i].preset, name, sizeof(name));
		printf("%-12s  for %s\n%12s", name, roles[i].role, "");
		for (size_t j = 0; j < lines_count; j++)
			if (strcmp(lines[j].preset, roles[i].preset) == 0)
				printf("  %s=%s", mt_setting_find(lines[j].name)->environment,
				       lines[j].value);
		putchar('\n');
	}
	puts("\nMT_PRESET=NAME or `mtctl run --preset NAME`; every MT_* variable overrides its "
	     "preset.\n"
	     "What ends a round is MT_ROUND's to say: mark (mt_round(), `mtctl round`) unless it "
	     "is set.");
}

int mt_command_presets(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"presets", NULL, options, 0, 0};
	size_t count;
	const struct mt_setting_preset *presets = mt_setting_presets(&count);
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	(json ? print_presets_json : print_presets)(presets, count);
	return MT_EXIT_OK;
}
