/* ctl/cmd/request.c -- commands that send one request to each process and wait for the reply:
 * `mtctl round` and `mtctl reset-peak`. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/process_list.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"

#define TIMEOUT_MS 10000u

static const char help[] = "  --json              one object\n"
			   "  --timeout=DURATION  how long to wait for the reply of each (10s)\n";

struct request_command {
	const char *command;
	struct mt_request request;
	/* prints what has changed */
	void (*print)(const struct mt_process *process, const struct mt_stats_head *head);
	/* adds it to the process's object */
	void (*add)(json_t *object, const struct mt_stats_head *head);
};

/* list: takes the process's object in place of a line of text, where it is not NULL. */
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
	const struct mt_command_line line = {command->command, help, NULL,
					     options,          1,    MT_OPERANDS_MAX};
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

	if (mt_stats_file_uses_cuda(head))
		printf("process %d (%s): the peaks start again: live bytes at %s, GPU allocated at "
		       "%s, reserved at %s\n",
		       (int)process->pid, process->comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text,
		       mt_text_bytes(now->gpu_allocated_peak_bytes).text,
		       mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	else
		printf("process %d (%s): the peak of live bytes starts again at %s\n",
		       (int)process->pid, process->comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text);
}

static void add_peaks(json_t *object, const struct mt_stats_head *head)
{
	const struct mt_stats_snapshot *now = &head->snapshot;
	bool gpu = mt_stats_file_uses_cuda(head);

	mt_json_set_u64(object, "heap_live_peak_bytes", now->heap_live_peak_bytes);
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
