/* ctl/set.c -- `mtctl set`: a setting of a running process. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ctl/bellfile.h"
#include "ctl/command.h"
#include "ctl/setting.h"
#include "ctl/sites.h"
#include "ctl/target.h"
#include "ctl/text.h"

#define TIMEOUT_MS 10000u

static const char help[] =
	"NAME is that of `mtctl options`, as gc_rounds, gc-rounds or MT_GC_ROUNDS; only settings marked\n"
	"live can change. Waits for the answer, prints the old value and the new one.\n";

static enum mt_exit refuse_name(const char *name)
{
	const char *nearest = mt_setting_nearest(name);

	if (nearest)
		mt_error_say("no setting '%.40s'; did you mean '%s'?", name, nearest);
	else
		mt_error_say("no setting '%.40s'; `mtctl options` lists them", name);
	return MT_EXIT_USAGE;
}

/* What can be told wrong without asking the process. */
static enum mt_exit make_request(char *assignment, struct mt_request *out)
{
	char *value = strchr(assignment, '=');
	const struct mt_setting *setting;
	struct mt_why why;

	if (!value) {
		mt_error_say("'%.60s': NAME=VALUE is wanted", assignment);
		return MT_EXIT_USAGE;
	}
	*value++ = '\0';
	setting = mt_setting_find(assignment);
	if (!setting)
		return refuse_name(assignment);
	if (!setting->live) {
		mt_error_say("%s %s", setting->name, mt_error_text(MT_ERR_START_ONLY));
		return MT_EXIT_USAGE;
	}
	if (mt_setting_check(setting, value, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_USAGE;
	}
	*out = (struct mt_request){.kind = MT_REQUEST_SET};
	snprintf(out->name, sizeof(out->name), "%s", setting->name);
	snprintf(out->value, sizeof(out->value), "%s", value);
	return MT_EXIT_OK;
}

static const char *value_of(const struct mt_stats_file *file, const char *name)
{
	for (size_t i = 0; i < file->head.settings_count; i++)
		if (strcmp(file->settings[i].name, name) == 0)
			return file->settings[i].value;
	return "?";
}

static int set(struct mt_target *target, const struct mt_request *request)
{
	char before[sizeof(target->file.settings[0].value)];
	struct mt_why why;
	enum mt_err error;

	if (strcmp(request->name, "prof") == 0 && mt_sites_why_not(&target->file.head)) {
		mt_error_say("process %d (%s): %s", (int)target->process.pid, target->process.comm,
			     mt_sites_why_not(&target->file.head));
		return MT_EXIT_NOTHING;
	}
	snprintf(before, sizeof(before), "%s", value_of(&target->file, request->name));
	error = mt_bellfile_ask(&target->process, *request, TIMEOUT_MS, &why);
	if (error && strcmp(request->name, "prof") == 0 && strcmp(why.text, mt_error_text(MT_ERR_SYSTEM)) == 0)
		mt_error_because(&why, error, "it cannot walk stacks: that takes libgcc_s.so.1, glibc 2.35 and process_vm_readv");
	if (!error)
		error = mt_target_read(&target->process, &target->file, &why);
	if (error) {
		mt_error_say("process %d (%s): %s: %s", (int)target->process.pid, target->process.comm, request->name,
			     why.text);
		return mt_error_exit(error);
	}
	printf("%s: %s -> %s\n", request->name, before, value_of(&target->file, request->name));
	return MT_EXIT_OK;
}

int mt_command_set(int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct mt_request request;
	struct mt_target target;
	int option, code;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
		return option == 'h' ? mt_command_help("set", help) : MT_EXIT_USAGE;
	if (optind + 2 != argc)
		return mt_command_misused("set");
	code = make_request(argv[optind + 1], &request);
	if (code == MT_EXIT_OK)
		code = mt_target_open(argv[optind], &target);
	return code == MT_EXIT_OK ? set(&target, &request) : code;
}
