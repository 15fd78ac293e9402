/* ctl/cmd/set.c -- `mtctl set`: a setting of running processes. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/process/set_request.h"
#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/process/target.h"

#define TIMEOUT_MS 10000u

static const char help[] =
	"NAME is a name of `mtctl options`, as gc_rounds, gc-rounds or MT_GC_ROUNDS; only\n"
	"settings marked live can change. Waits for the reply, and prints the old value and the\n"
	"new one.\n";

static enum mt_exit fail(const struct mt_target *target, const struct mt_request *request,
			 enum mt_err error, const struct mt_error_reason *why)
{
	mt_error_say("process %d (%s): %s: %s", (int)target->process.pid, target->process.comm,
		     request->name, why->text);
	return mt_error_exit(error);
}

/* with_name: prints which process it is. */
static enum mt_exit set(struct mt_target *target, const struct mt_request *request, bool with_name)
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
	if (with_name)
		printf("process %d (%s): ", (int)target->process.pid, target->process.comm);
	printf("%s: %s -> %s\n", request->name, before,
	       mt_set_request_value(request, &target->file));
	return MT_EXIT_OK;
}

/* Returns the highest exit code. */
static enum mt_exit set_all(const struct mt_process *list, size_t count,
			    const struct mt_request *request)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	enum mt_exit worst = MT_EXIT_OK;

	for (size_t i = 0; i < count; i++) {
		enum mt_exit code;

		target->process = list[i];
		code = set(target, request, count > 1);
		worst = code > worst ? code : worst;
	}
	free(target);
	return worst;
}

int mt_command_set(int argc, char **argv)
{
	static const struct mt_option options[] = {{0}};
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
	code = set_all(list, count, &request);
	free(list);
	return code;
}
