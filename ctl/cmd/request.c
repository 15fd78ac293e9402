/* ctl/cmd/request.c -- commands that take one PID, send one request and wait for the reply:
 * `mtctl round` and `mtctl reset-peak`. */
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/output/text.h"
#include "ctl/process/control_file.h"

#define TIMEOUT_MS 10000u

static const char help[] = "  --timeout=SECONDS  how long to wait for the answer (10)\n";

struct request_command {
	const char *command;
	struct mt_request request;
	struct mt_process process; /* filled in */
	struct mt_stats_head head; /* what the process says after it; only where `answered` */
	bool answered;
};

static int ask_process(struct request_command *ask, uint64_t timeout_ms)
{
	struct mt_why why;
	enum mt_err error =
		mt_control_file_exchange(&ask->process, ask->request, timeout_ms, &ask->head, &why);

	ask->answered = !error;
	return error ? mt_target_fail(&ask->process, error, &why) : MT_EXIT_OK;
}

/* Reads "PID [--timeout=S]", sends the request and waits for the reply. Returns the exit code,
 * after a message where it is not MT_EXIT_OK. */
static int run(struct request_command *ask, int argc, char **argv)
{
	uint64_t timeout_ms = TIMEOUT_MS;
	const struct mt_option options[] = {{.name = "timeout",
					     .target = &timeout_ms,
					     .take = mt_option_seconds,
					     .letter = 't'},
					    {0}};
	const struct mt_command_line line = {ask->command, help, NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_target_find(argv[optind], &ask->process);
	return code == MT_EXIT_OK ? ask_process(ask, timeout_ms) : code;
}

int mt_command_round(int argc, char **argv)
{
	struct request_command ask = {.command = "round", .request = {.kind = MT_REQUEST_ROUND}};
	int code = run(&ask, argc, argv);

	if (ask.answered)
		printf("process %d (%s): %s\n", (int)ask.process.pid, ask.process.comm,
		       mt_text_counted(ask.head.snapshot.rounds_count, "round has ended",
				       "rounds have ended")
			       .text);
	return code;
}

int mt_command_reset_peak(int argc, char **argv)
{
	struct request_command ask = {.command = "reset-peak",
				      .request = {.kind = MT_REQUEST_RESET_PEAK}};
	int code = run(&ask, argc, argv);
	const struct mt_stats_snapshot *now = &ask.head.snapshot;

	if (ask.answered && mt_stats_file_uses_cuda(&ask.head))
		printf("process %d (%s): the peaks start again: live bytes at %s, GPU allocated at "
		       "%s, reserved at %s\n",
		       (int)ask.process.pid, ask.process.comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text,
		       mt_text_bytes(now->gpu_allocated_peak_bytes).text,
		       mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	else if (ask.answered)
		printf("process %d (%s): the peak of live bytes starts again at %s\n",
		       (int)ask.process.pid, ask.process.comm,
		       mt_text_bytes(now->heap_live_peak_bytes).text);
	return code;
}
