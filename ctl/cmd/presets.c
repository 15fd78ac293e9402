/* ctl/cmd/presets.c -- `mtctl presets`: what each MT_PRESET stands for. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/setting.h"

/* The table spells names as C does; users write a dash. */
static void preset_name(const char *preset, char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "%s", preset);
	for (; *out; out++)
		if (*out == '_')
			*out = '-';
}

static void print_json(const struct mt_setting_preset *lines, size_t count)
{
	json_t *root = json_object();
	char name[32];

	for (size_t i = 0; i < count; i++) {
		preset_name(lines[i].preset, name, sizeof(name));
		if (!json_object_get(root, name))
			mt_json_set(root, name, json_object());
		mt_json_set_text(json_object_get(root, name), lines[i].name, lines[i].value);
	}
	mt_json_print(root, true);
}

static void print_text(const struct mt_setting_preset *lines, size_t lines_count)
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
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	size_t count;
	const struct mt_setting_preset *lines = mt_setting_presets(&count);
	bool json = false;
	int option;

	while ((option = mt_command_option(argc, argv, "h", options)) != -1) {
		if (option == 'h')
			return mt_command_help("presets", NULL);
		if (option == '?')
			return MT_EXIT_USAGE;
		json = true;
	}
	if (optind != argc)
		return mt_command_misused("presets");
	(json ? print_json : print_text)(lines, count);
	return MT_EXIT_OK;
}
