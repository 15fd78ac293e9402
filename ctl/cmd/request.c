/* ctl/cmd/request.c -- commands that send one request to each process and wait for the reply:
 * `mtctl round`, `mtctl reset-peak` and `mtctl set`. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"

#define TIMEOUT_MS 10000u

struct request_command {
	const char *command;
	struct mt_request request;
	/* prints what has changed */
	void (*print)(const struct mt_process *process, const struct mt_stats_head *head);
	/* adds it to the process's object */
	void (*add)(json_t *object, const struct mt_stats_head *head);
};

/* list: takes the process's object in place of a line of text, if it is not NULL. */
static enum mt_exit send_request(const struct request_command *command,
				 const struct mt_process *process, uint64_t timeout_ms,
				 json_t *list)
{
	struct mt_stats_head head;
	struct mt_error_reason why;
	enum mt_err error =
		mt_control_file_exchange(process, command->request, timeout_ms, &head, &why);

	if (error)
		return mt_target_fail(process, error, &why);
	if (list) {
		json_t *object = mt_process_json(process);

		command->add(object, &head);
		mt_json_append(list, object);
	} else {
		command->print(process, &head);
	}
	return MT_EXIT_OK;
}

/* Reads "PID... [--timeout=S]", sends the request to each and waits for the reply. Returns the
 * highest exit code. */
static int run(const struct request_command *command, int argc, char **argv)
{
	uint64_t timeout_ms = TIMEOUT_MS;
	bool json = false;
	const struct mt_option options[] = {
		{.name = "json", .target = &json},
		{.name = "timeout", .target = &timeout_ms, .take = mt_option_ms, .letter = 't'},
		{0}};
	const struct mt_command_line line = {command->command, NULL, options, 1, MT_OPERANDS_MAX};
	struct mt_process *list;
	json_t *objects;
	size_t count;
	int code, worst = MT_EXIT_OK;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_target_find_all(&argv[optind], (size_t)(argc - optind), &list, &count);
	if (code != MT_EXIT_OK)
		return code;
	objects = json ? json_array() : NULL;
	for (size_t i = 0; i < count; i++) {
		code = send_request(command, &list[i], timeout_ms, objects);
		worst = code > worst ? code : worst;
	}
	free(list);
	if (json)
		mt_process_print_json(objects);
	return worst;
}

static void print_rounds(const struct mt_process *process, const struct mt_stats_head *head)
{
	printf("process %d (%s): %s\n", (int)process->pid, process->comm,
	       mt_text_counted(head->snapshot.rounds_count, "round has ended", "rounds have ended")
		       .text);
}

static void add_rounds(json_t *object, const struct mt_stats_head *head)
{
	mt_json_set_u64(object, "rounds_count", head->snapshot.rounds_count);
}

static void print_peaks(const struct mt_process *process, const struct mt_stats_head *head)
{
	const struct mt_stats_snapshot *now = &head->snapshot;
	struct mt_short_text live = {"-"};

	if (now->heap_live_bytes)
		live = mt_text_bytes(now->heap_live_peak_bytes);
	if (mt_stats_file_uses_cuda(head))
		printf("process %d (%s): the peaks start again: live bytes at %s, GPU allocated at "
		       "%s, reserved at %s\n",
		       (int)process->pid, process->comm, live.text,
		       mt_text_bytes(now->gpu_allocated_peak_bytes).text,
		       mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	else
		printf("process %d (%s): the peak of live bytes starts again at %s\n",
		       (int)process->pid, process->comm, live.text);
}

static void add_peaks(json_t *object, const struct mt_stats_head *head)
{
	const struct mt_stats_snapshot *now = &head->snapshot;
	bool gpu = mt_stats_file_uses_cuda(head);

	mt_json_set_u64_if(object, "heap_live_peak_bytes", now->heap_live_bytes != 0,
			   now->heap_live_peak_bytes);
	mt_json_set_u64_if(object, "gpu_allocated_peak_bytes", gpu, now->gpu_allocated_peak_bytes);
	mt_json_set_u64_if(object, "gpu_reserved_peak_bytes", gpu, now->gpu_reserved_peak_bytes);
}

int mt_command_round(int argc, char **argv)
{
	static const struct request_command command = {
		"round", {.kind = MT_REQUEST_ROUND}, print_rounds, add_rounds};

	return run(&command, argc, argv);
}

int mt_command_reset_peak(int argc, char **argv)
{
	static const struct request_command command = {
		"reset-peak", {.kind = MT_REQUEST_RESET_PEAK}, print_peaks, add_peaks};

	return run(&command, argc, argv);
}

/* ---- set ---- */

/* Where the result goes. */
struct output {
	json_t *list;   /* takes an object for each process, if it is not NULL; else text */
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
	const char *unavailable;
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	unavailable = mt_set_request_unavailable(request, &target->file.head);
	if (unavailable) {
		mt_process_say(&target->process, unavailable);
		return MT_EXIT_NOTHING;
	}
	snprintf(before, sizeof(before), "%s", mt_set_request_value(request, &target->file));
	error = mt_control_file_request(&target->process, *request, TIMEOUT_MS, &why);
	if (!error)
		error = mt_target_read(&target->process, &target->file, &why);
	if (error) {
		mt_error_say("process %d (%s): %s: %s", (int)target->process.pid,
			     target->process.comm, request->name, why.text);
		return mt_error_exit(error);
	}
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
	const struct mt_command_line line = {"set", NULL, options, 2, MT_OPERANDS_MAX};
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
