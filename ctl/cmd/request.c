/* ctl/cmd/request.c -- see request.h. */
#include "ctl/cmd/request.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/output/units.h"

#define TIMEOUT_MS 10000u

static const char help[] = "  --timeout=SECONDS  how long to wait for the answer (10)\n";

static int ask_process(struct mt_request_command *ask, uint64_t timeout_ms)
{
	struct mt_why why;
	struct mt_control_call call;
	enum mt_err error =
		mt_control_file_send(&ask->process, ask->request, timeout_ms, &call, &why);

	if (!error)
		error = mt_control_file_wait(&call, &ask->head, &why);
	if (error) {
		mt_error_say("process %d (%s): %s", (int)ask->process.pid, ask->process.comm,
			     why.text);
		return mt_error_exit(error);
	}
	if (ask->head.snapshot.request_error) {
		mt_error_say("process %d (%s): %s", (int)ask->process.pid, ask->process.comm,
			     mt_error_text(ask->head.snapshot.request_error));
		return MT_EXIT_USAGE;
	}
	ask->answered = true;
	return MT_EXIT_OK;
}

int mt_request_command_run(struct mt_request_command *ask, int argc, char **argv)
{
	static const struct option options[] = {
		{"timeout", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'}, {0}};
	uint64_t timeout_ms = TIMEOUT_MS;
	int option, code;

	while ((option = mt_command_option(argc, argv, "ht:", options)) != -1) {
		if (option == 'h')
			return mt_command_help(ask->command, help);
		if (option != 't' || !mt_units_parse_seconds(optarg, &timeout_ms))
			return MT_EXIT_USAGE;
	}
	if (optind + 1 != argc)
		return mt_command_misused(ask->command);
	code = mt_target_find(argv[optind], &ask->process);
	return code == MT_EXIT_OK ? ask_process(ask, timeout_ms) : code;
}
