/* ctl/cmd/set.c -- `mtctl set`: a setting of a running process. */
#include <stdio.h>

#include "ctl/process/set_request.h"
#include "ctl/process/control_file.h"
#include "ctl/process/process_list.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/target.h"

#define TIMEOUT_MS 10000u

static const char help[] =
	"NAME is a name of `mtctl options`, as gc_rounds, gc-rounds or MT_GC_ROUNDS; only\n"
	"settings marked live can change. Waits for the reply, and prints the old value and the\n"
	"new one.\n\n"
	"  --json  one object\n";

static void print_text(const struct mt_target *target, const struct mt_request *request,
		       const char *before)
{
	printf("%s: %s -> %s\n", request->name, before,
	       mt_set_request_value(request, &target->file));
}

static void print_json(const struct mt_target *target, const struct mt_request *request,
		       const char *before)
{
	json_t *root = json_object(), *list = json_array(),
	       *object = mt_process_json(&target->process);

	mt_json_set_text(object, "name", request->name);
	mt_json_set_text(object, "value_before", before);
	mt_json_set_text(object, "value", mt_set_request_value(request, &target->file));
	mt_json_append(list, object);
	mt_json_set(root, "processes", list);
	mt_json_print(root, true);
}

static int set(struct mt_target *target, const struct mt_request *request, bool json)
{
	char before[sizeof(target->file.settings[0].value)];
	struct mt_error_reason why;
	enum mt_err error;

	if (mt_set_request_unavailable(request, &target->file.head)) {
		mt_process_say(&target->process,
			       mt_set_request_unavailable(request, &target->file.head));
		return MT_EXIT_NOTHING;
	}
	snprintf(before, sizeof(before), "%s", mt_set_request_value(request, &target->file));
	error = mt_control_file_request(&target->process, *request, TIMEOUT_MS, &why);
	if (error)
		mt_set_request_explain(request, &why);
	else
		error = mt_target_read(&target->process, &target->file, &why);
	if (error) {
		mt_error_say("process %d (%s): %s: %s", (int)target->process.pid,
			     target->process.comm, request->name, why.text);
		return mt_error_exit(error);
	}
	(json ? print_json : print_text)(target, request, before);
	return MT_EXIT_OK;
}

int mt_command_set(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"set", help, NULL, options, 2, 2};
	struct mt_request request;
	struct mt_target target;
	struct mt_error_reason why;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (mt_set_request_parse(argv[optind + 1], &request, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	code = mt_target_open(argv[optind], &target);
	return code == MT_EXIT_OK ? set(&target, &request, json) : code;
}
