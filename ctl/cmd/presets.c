/* ctl/cmd/presets.c -- `mtctl presets`: what each MT_PRESET stands for. */
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
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"presets", NULL, NULL, options, 0, 0};
	size_t count;
	const struct mt_setting_preset *presets = mt_setting_presets(&count);
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	(json ? print_json : print_text)(presets, count);
	return MT_EXIT_OK;
}
