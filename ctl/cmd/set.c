/* ctl/cmd/set.c -- `mtctl set`: a setting of running processes. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"

#define TIMEOUT_MS 10000u

static const char help[] =
	"NAME is a name of `mtctl options`, as gc_rounds, gc-rounds or MT_GC_ROUNDS; only\n"
	"settings marked live can change. Waits for the reply, and prints the old value and the\n"
	"new one.\n\n"
	"  --json  one object\n";

static enum mt_exit fail(const struct mt_target *target, const struct mt_request *request,
			 enum mt_err error, const struct mt_error_reason *why)
{
	mt_error_say("process %d (%s): %s: %s", (int)target->process.pid, target->process.comm,
		     request->name, why->text);
	return mt_error_exit(error);
}

/* Where the result goes. */
struct output {
	json_t *list;   /* takes an object for each process, where it is not NULL; else text */
	bool with_name; /* the text says which process it is */
};

static void print(const struct mt_target *target, const struct mt_request *request,
		  const char *before, const struct output *output)
{
	const char *now = mt_set_request_value(request, &target->file);

	if (output->list) {
		json_t *object = mt_process_json(&target->process);

		mt_json_set_text(object, "name", request->name);
		mt_json_set_text(object, "value_before", before);
		mt_json_set_text(object, "value", now);
		mt_json_append(output->list, object);
		return;
	}
	if (output->with_name)
		printf("process %d (%s): ", (int)target->process.pid, target->process.comm);
	printf("%s: %s -> %s\n", request->name, before, now);
}

static enum mt_exit set(struct mt_target *target, const struct mt_request *request,
			const struct output *output)
{
	char before[sizeof(target->file.settings[0].value)];
	struct mt_error_reason why;
	enum mt_exit code = mt_target_load(target);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
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
	if (error)
		return fail(target, request, error, &why);
	print(target, request, before, output);
	return MT_EXIT_OK;
}

/* Returns the highest exit code. */
static enum mt_exit set_all(const struct mt_process *list, size_t count,
			    const struct mt_request *request, bool json)
{
	const struct output output = {json ? json_array() : NULL, count > 1};
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	enum mt_exit worst = MT_EXIT_OK;

	for (size_t i = 0; i < count; i++) {
		enum mt_exit code;

		target->process = list[i];
		code = set(target, request, &output);
		worst = code > worst ? code : worst;
	}
	free(target);
	if (json)
		mt_process_print_json(output.list);
	return worst;
}

int mt_command_set(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"set", help, NULL, options, 2, MT_OPERANDS_MAX};
	struct mt_process *list;
	size_t count;
	struct mt_request request;
	struct mt_error_reason why;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (mt_set_request_parse(argv[argc - 1], &request, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	code = mt_target_find_all(&argv[optind], (size_t)(argc - 1 - optind), &list, &count);
	if (code != MT_EXIT_OK)
		return code;
	code = set_all(list, count, &request, json);
	free(list);
	return code;
}
