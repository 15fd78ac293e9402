/* ctl/cmd/round.c -- `mtctl round`. */
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/cmd/request.h"
#include "ctl/output/text.h"

int mt_command_round(int argc, char **argv)
{
	struct mt_request_command ask = {.command = "round", .request = {.kind = MT_REQUEST_ROUND}};
	int code = mt_request_command_run(&ask, argc, argv);

	if (ask.answered)
		printf("process %d (%s): %s\n", (int)ask.process.pid, ask.process.comm,
		       mt_text_counted(ask.head.snapshot.rounds_count, "round has ended",
				       "rounds have ended")
			       .text);
	return code;
}
