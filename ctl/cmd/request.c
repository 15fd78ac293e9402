/* ctl/cmd/request.c -- commands that take one PID, send one request and wait for the reply:
 * `mtctl round` and `mtctl reset-peak`. */
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/output/text.h"
#include "ctl/process/control_file.h"

#define TIMEOUT_MS 10000u

static const char help[] = "  --timeout=SECONDS  how long to wait for the reply (10)\n";

struct request_command {
	const char *command;
	struct mt_request request;
	struct mt_process process; /* filled in */
	struct mt_stats_head head; /* after the request; only where `replied` */
	bool replied;
};

static int send_request(struct request_command *command, uint64_t timeout_ms)
{
	struct mt_error_reason why;
	enum mt_err error = mt_control_file_exchange(&command->process, command->request,
						     timeout_ms, &command->head, &why);

	command->replied = !error;
	return error ? mt_target_fail(&command->process, error, &why) : MT_EXIT_OK;
}

/* Reads "PID [--timeout=S]", sends the request and waits for the reply. Returns the exit code,
 * after a message where it is not MT_EXIT_OK. */
static int run(struct request_command *command, int argc, char **argv)
{
	uint64_t timeout_ms = TIMEOUT_MS;
	const struct mt_option options[] = {
		{.name = "timeout", .target = &timeout_ms, .take = mt_option_ms, .letter = 't'},
		{0}};
	const struct mt_command_line line = {command->command, help, NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_target_find(argv[optind], &command->process);
	return code == MT_EXIT_OK ? send_request(command, timeout_ms) : code;
}

int mt_command_round(int argc, char **argv)
{
	struct request_command command = {.command = "round",
					  .request = {.kind = MT_REQUEST_ROUND}};
	int code = run(&command, argc, argv);

	if (command.replied)
		printf("process %d (%s): %s\n", (int)command.process.pid, command.process.comm,
		       mt_text_counted(command.head.snapshot.rounds_count, "round has ended",
				       "rounds have ended")
			       .text);
	return code;
}

int mt_command_reset_peak(int argc, char **argv)
{
	struct request_command command = {.command = "reset-peak",
					  .request = {.kind = MT_REQUEST_RESET_PEAK}};
	int code = run(&command, argc, argv);
	const struct mt_stats_snapshot *now = &command.head.snapshot;

	if (command.replied && mt_stats_file_uses_cuda(&command.head))
		printf("process %d (%s): the peaks start again: live bytes at %s, GPU allocated at "
		       "%s, reserved at %s\n",
		       (int)command.process.pid, command.process.comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text,
		       mt_text_bytes(now->gpu_allocated_peak_bytes).text,
		       mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	else if (command.replied)
		printf("process %d (%s): the peak of live bytes starts again at %s\n",
		       (int)command.process.pid, command.process.comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text);
	return code;
}
